package adaptertest

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// refusalSteps are guards that refuse each request, which step makes anew.
var refusalSteps = []struct {
	name   string
	status int
	step   func() Step
}{
	{"429", 429, func() Step { return exhausted() }},
	{"429 followed", 429, func() Step {
		return exhausted(nethttp.CountWhen(func(*http.Request, int) bool { panic("asked about a refusal of its own") }))
	}},
	{"503", 503, func() Step {
		outage := storetest.Fixed(core.Decision{Err: errors.New("down")})
		down := limiterOn(outage, core.PerMinute(3)).WithPolicy(core.FailClosed)
		return step(down, nethttp.WithOutageRetryAfter(1200*time.Millisecond))
	}},
	{"401", 401, func() Step {
		known := keyfuncs.VerifyFunc(func(context.Context, string) (bool, error) { return false, nil })
		return Step{Limiter: newLimiter(core.PerMinute(3)), Key: keyfuncs.APIKey("X-API-Key", known)}
	}},
	{"400", 400, func() Step {
		return Step{Limiter: newLimiter(core.PerMinute(3)), Key: keyfuncs.Header("X-Tenant")}
	}},
}

// refusals checks that a refusal equals the refusal of net/http's middleware, byte
// for byte, and that no handler and no later middleware is reached.
func refusals(t *testing.T, adapter Adapter) {
	for _, c := range refusalSteps {
		for _, method := range []string{"GET", "HEAD"} {
			t.Run(c.name+" "+method, func(t *testing.T) {
				step := c.step()
				guard := nethttp.Middleware(step.Limiter, step.Key, step.Options...)
				want := serve(guard(http.NotFoundHandler()), method, "/api/work")
				if want.Code != c.status {
					t.Fatalf("net/http's middleware answers %d, want %d", want.Code, c.status)
				}
				reached := ""
				spy := Step{Spy: func() { reached += "middleware " }}
				handler := func(http.ResponseWriter, *http.Request) { reached += "handler" }
				for place, tree := range treesAround(c.step, spy, Route{Method: method, Handler: handler}) {
					got := serve(adapter.Build(tree), method, "/api/work")
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

// exhausted returns a guard whose limit is used up.
func exhausted(opts ...nethttp.Option) Step {
	l := newLimiter(core.PerMinute(1))
	l.Allow(context.Background(), "user:all")
	return step(l, opts...)
}
