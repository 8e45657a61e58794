package adaptertest

import (
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
)

// costTen is an estimate of 10.
var costTen = nethttp.WithCost(func(*http.Request) int { return 10 })

// remaining returns the units of the limiter that are left for the key of sameKey.
func remaining(l *core.Limiter) int64 { return l.AllowN(context.Background(), "user:all", 0).Remaining }

// writes returns a handler that writes n bytes in three ways.
func writes(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, n/3))
		_, _ = io.WriteString(w, strings.Repeat("x", n/3))
		copyText(w, strings.Repeat("y", n-n/3-n/3))
	}
}

// costs are requests, with the number of units that is left of 100 after each. Without a
// handler the path has no route.
var costs = []struct {
	method, path string
	handler      http.HandlerFunc
	left         int64 // of 100
}{
	{"GET", "/", writes(3), 97},
	{"GET", "/", writes(10), 90},
	{"GET", "/", writes(33), 67},
	{"GET", "/", writes(1000), 0},
	{"GET", "/", func(http.ResponseWriter, *http.Request) {}, 100},
	{"GET", "/", status(404), 100},
	{"GET", "/nowhere", nil, 100},
	{"HEAD", "/", writes(33), 100},
	{"GET", "/negative", writes(33), 90},
}

// costAfter checks what requests cost if that is known after the handler.
func costAfter(t *testing.T, adapter Adapter) {
	bytes := nethttp.CostAfter(func(r *http.Request, status int, bytes int64) int {
		switch {
		case r.URL.Path == "/negative":
			return -1
		case status != 200:
			return 0
		}
		return int(bytes)
	})
	for _, c := range costs {
		l := newLimiter(core.PerMinute(100))
		use := []Step{step(l, costTen, bytes)}
		pattern := c.path
		if c.handler == nil {
			pattern, c.handler = "/", page
		}
		h := adapter.Build(rootTree(use, c.method, pattern, c.handler))
		what := fmt.Sprint(c.method, " ", c.path, ", to leave ", c.left)
		if w := serve(h, c.method, c.path); w.Header().Get("X-RateLimit-Remaining") != "90" {
			t.Errorf("%s: %d %v", what, w.Code, w.Header())
		}
		if got := remaining(l); got != c.left {
			t.Errorf("%s: %d are left", what, got)
		}
		if w := serve(h, c.method, c.path); (w.Code == 429) != (c.left < 10) {
			t.Errorf("%s: the next request got %d", what, w.Code)
		}
	}
}

// decisionInContext checks which decision a handler finds in its context, and the function
// of an option in that of its request.
func decisionInContext(t *testing.T, adapter Adapter) {
	inContext := nethttp.WithDecisionInContext()
	outer, inner := newLimiter(core.PerMinute(100)), newLimiter(core.PerMinute(10))
	var found int64
	finds := nethttp.CountWhen(func(r *http.Request, _ int) bool {
		if a, ok := nethttp.FromContext(r.Context()); ok {
			found = a.Decision().Limit.Requests
		}
		return false
	})
	finding := func(remaining int64) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) {
			if a, ok := nethttp.FromContext(r.Context()); !ok || a.Decision().Remaining != remaining {
				t.Errorf("%s: %v, %+v; want %d remaining", r.URL.Path, ok, a, remaining)
			}
		}
	}
	h := adapter.Build(Tree{
		Use: []Step{step(outer, inContext, nethttp.SkipPaths("/skipped"))},
		Routes: []Route{
			route("GET", "/skipped", nil, func(_ http.ResponseWriter, r *http.Request) {
				if a, ok := nethttp.FromContext(r.Context()); ok {
					t.Errorf("a skipped request has %+v", a.Decision())
				}
			}),
			route("GET", "/outer", []Step{step(inner, finds)}, finding(99)),
			route("GET", "/inner", []Step{step(inner, finds, inContext)}, finding(9)),
		},
	})
	for path, want := range map[string]int64{"/skipped": 0, "/outer": 100, "/inner": 10} {
		found = 0
		if w := serve(h, "GET", path); w.Code != 200 || found != want {
			t.Errorf("%s: %d, CountWhen found the limit of %d, want %d", path, w.Code, found, want)
		}
		if err := outer.Reset(t.Context(), "user:all"); err != nil {
			t.Fatal(err)
		}
	}
}

// requestOutside checks that what stands outside of guards knows of a request what its handler has set in it, and not
// the decisions in the context.
func requestOutside(t *testing.T, adapter Adapter) {
	five, inContext := core.PerMinute(5), nethttp.WithDecisionInContext()
	asked := false
	outside := nethttp.CountWhen(func(r *http.Request, _ int) bool {
		asked = true
		_, ok := nethttp.FromContext(r.Context())
		if r.Pattern != "/set/{name}" || r.PathValue("name") != "value" || r.MultipartForm == nil || ok {
			t.Errorf("got %q, %q, %v and a decision: %v, want what the handler has set and no decision",
				r.Pattern, r.PathValue("name"), r.MultipartForm, ok)
		}
		return true
	})
	sets := func(_ http.ResponseWriter, r *http.Request) {
		r.Pattern, r.MultipartForm = "/set/{name}", new(multipart.Form)
		r.SetPathValue("name", "value")
		panic(http.ErrAbortHandler)
	}
	steps := []Step{step(newLimiter(five), outside), step(newLimiter(five), inContext),
		step(newLimiter(five), inContext)}
	defer func() {
		if recover() == nil || !asked {
			t.Error("the handler's panic, or the guard outside, was not reached")
		}
	}()
	serve(adapter.Build(Tree{Routes: []Route{route("GET", "/", steps, sets)}}), "GET", "/")
}
