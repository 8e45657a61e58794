package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// refusalSteps are guards that refuse each request. step makes a new guard, and
// header holds names and values of the request's header in turn.
var refusalSteps = []struct {
	name   string
	status int
	step   func() Step
	header []string
}{
	{"429", 429, func() Step { return spent() }, nil},
	{"429 in text", 429, func() Step { return spent() }, []string{"Accept", "text/plain"}},
	{"429 in both formats", 429, func() Step {
		return spent(nethttp.WithHeaders(headers.Classic, headers.IETF))
	}, nil},
	{"429 custom", 429, func() Step {
		return spent(nethttp.WithRefusal(func(w http.ResponseWriter, r *http.Request, d core.Decision) {
			w.Header().Set("X-Custom", "yes")
			w.WriteHeader(nethttp.Status(d))
			_, _ = io.WriteString(w, "custom")
		}))
	}, nil},
	{"429 that is never served", 429, func() Step {
		return by(newLimiter(core.PerMinute(3)), nethttp.WithCost(func(*http.Request) int { return 4 }))[0]
	}, nil},
	{"503", 503, func() Step {
		down := on(outage, core.PerMinute(3)).WithPolicy(core.FailClosed)
		return by(down, nethttp.WithRetryAfter(1200*time.Millisecond))[0]
	}, nil},
	{"400", 400, func() Step {
		return Step{Limiter: newLimiter(core.PerMinute(3)), Key: keyfuncs.Header("X-Tenant")}
	}, nil},
	{"500", 500, func() Step {
		failing := func(*http.Request) (string, error) { return "", errors.New("secret") }
		return Step{Limiter: newLimiter(core.PerMinute(3)), Key: failing}
	}, nil},
}

// refusals checks that a refusal equals the refusal of net/http's middleware, byte
// for byte, and that no handler and no later middleware is reached.
func refusals(t *testing.T, adapter Adapter) {
	for _, c := range refusalSteps {
		for _, method := range []string{"GET", "HEAD", "POST"} {
			t.Run(c.name+" "+method, func(t *testing.T) {
				step := c.step()
				guard := nethttp.Middleware(step.Limiter, step.Key, step.Options...)
				want := serve(t, guard(http.NotFoundHandler()), method, "/api/work", c.header...)
				if want.Code != c.status {
					t.Fatalf("net/http's middleware answers %d, want %d", want.Code, c.status)
				}
				reached := ""
				spy := Step{Spy: func() { reached += "middleware " }}
				handler := func(http.ResponseWriter, *http.Request) { reached += "handler" }
				for place, tree := range treesAround(c.step, spy, Route{Method: method, Handler: handler}) {
					got := serve(t, adapter.Build(tree), method, "/api/work", c.header...)
					if got.Code != c.status || got.Body.String() != want.Body.String() ||
						!maps.EqualFunc(got.Header(), want.Header(), slices.Equal) {
						t.Errorf("%s: got %d %v %s\nwant %d %v %s",
							place, got.Code, got.Header(), got.Body, want.Code, want.Header(), want.Body)
					}
					if reached != "" {
						t.Errorf("%s: a refused request reached %s", place, reached)
						reached = ""
					}
				}
			})
		}
	}
}

// treesAround returns three servers with a route at /api/work. A guard of step
// stands before spy at the root, in the group, or at the route.
func treesAround(step func() Step, spy Step, r Route) map[string]Tree {
	at := func(pattern string, steps ...Step) []Route {
		return []Route{route(r.Method, pattern, steps, r.Handler)}
	}
	return map[string]Tree{
		"root":  {Use: []Step{step(), spy}, Routes: at("/api/work", spy)},
		"group": {Prefix: "/api", Group: []Step{step(), spy}, Routes: at("/work", spy)},
		"route": {Prefix: "/api", Routes: at("/work", step(), spy)},
	}
}

// endedRequest checks that a request with a context that has ended gets a 503
// without a body.
func endedRequest(t *testing.T, adapter Adapter) {
	h := adapter.Build(behind(by(newLimiter(core.PerMinute(3))), "GET", "/work", page))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/work", nil).WithContext(ctx))
	if w.Code != 503 || w.Body.Len() != 0 {
		t.Errorf("an ended request: got %d %q, want 503 without a body", w.Code, w.Body)
	}
}

// failOpen checks that a limiter that fails open serves without limit fields.
func failOpen(t *testing.T, adapter Adapter) {
	h := adapter.Build(behind(by(on(outage, core.PerMinute(3))), "GET", "/work", page))
	expect(t, serve(t, h, "GET", "/work"), 200, "", "")
}

// spent returns a guard with a limit that the test's client has used up.
func spent(opts ...nethttp.Option) Step {
	l := newLimiter(core.PerMinute(1))
	key, err := keyfuncs.RemoteIP(httptest.NewRequest("GET", "/", nil))
	if d := l.Allow(context.Background(), key); err != nil || !d.Allowed {
		panic(fmt.Sprint(d, err))
	}
	return by(l, opts...)[0]
}
