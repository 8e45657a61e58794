package adaptertest

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
)

var errHandler = errors.New("the handler's own error")

// handlersBeforeError has the acts of a handler, or of a function of WithRefusal, before it returns
// an error.
var handlersBeforeError = map[string]http.HandlerFunc{
	"nothing": func(http.ResponseWriter, *http.Request) {},
	"a response": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "page")
	},
}

// expectSame checks that a response has the status and the body of another, and the limit
// fields.
func expectSame(t *testing.T, what string, got, want *httptest.ResponseRecorder) {
	t.Helper()
	fields := got.Header().Get("X-RateLimit-Limit") != ""
	if got.Code != want.Code || got.Body.String() != want.Body.String() || !fields {
		t.Errorf("%s: got %d %q %v, want %d %q and limit fields",
			what, got.Code, got.Body, got.Header(), want.Code, want.Body)
	}
}

// failing returns a server with a route GET /work whose handler returns an error after h,
// behind the steps.
func failing(h http.HandlerFunc, steps ...Step) Tree {
	return Tree{Routes: []Route{
		{Method: http.MethodGet, Pattern: "/work", Steps: steps, Handler: h, Err: errHandler},
	}}
}

// treesWithError returns the tree of failing, and one with its steps at the root. A handler's
// error need not come to the root; the error of a guard there does.
func treesWithError(h http.HandlerFunc, steps ...Step) map[string]Tree {
	root := failing(h)
	root.Use = steps
	return map[string]Tree{"at the route": failing(h, steps...), "at the root": root}
}

// handlerErrors checks that the error of a handler is answered as without a guard, once,
// and that CountWhen is asked about the status of the answer, by each of two guards.
func handlerErrors(t *testing.T, adapter Adapter) {
	five, inContext := core.PerMinute(5), nethttp.WithDecisionInContext()
	for name, before := range handlersBeforeError {
		want := serve(adapter.Build(failing(before)), "GET", "/work")
		if name == "nothing" && want.Code != adapter.ErrorStatus {
			t.Fatalf("without a guard: got %d for a handler's error, want the ErrorStatus %d",
				want.Code, adapter.ErrorStatus)
		}
		inner, outer := newCountRecorder(), newCountRecorder()
		for what, c := range map[string]struct {
			steps    []Step
			statuses []int
		}{
			"no option":             {[]Step{step(newLimiter(five))}, nil},
			"WithDecisionInContext": {[]Step{step(newLimiter(five), inContext)}, nil},
			"CountWhen":             {[]Step{outer.step(), inner.step()}, []int{want.Code}},
		} {
			for place, tree := range treesWithError(before, c.steps...) {
				got := serve(adapter.Build(tree), "GET", "/work")
				expectSame(t, what+" "+place+", after "+name, got, want)
				if !slices.Equal(inner.statuses, c.statuses) || !slices.Equal(outer.statuses, c.statuses) {
					t.Errorf("%s %s, after %s: CountWhen got %v inside and %v outside, want %v",
						what, place, name, inner.statuses, outer.statuses, c.statuses)
				}
				inner.statuses, outer.statuses = nil, nil
			}
		}
	}
}

// refusalErrors checks that an error of the adapter's WithRefusal is answered as an error
// of a handler is, once, also after an interim response.
func refusalErrors(t *testing.T, adapter Adapter) {
	for name, before := range handlersBeforeError {
		want := serve(adapter.Build(failing(before)), "GET", "/work")
		refuse := adapter.WithRefusal(func(w http.ResponseWriter, r *http.Request, _ core.Decision) error {
			before(w, r)
			return errHandler
		})
		for what, opts := range map[string][]nethttp.Option{
			"no option": {refuse},
			"CountWhen": {refuse, counted},
		} {
			for place, tree := range treesWithError(page, exhausted(opts...)) {
				got := serve(adapter.Build(tree), "GET", "/work")
				expectSame(t, what+" "+place+", after "+name, got, want)
			}
		}
	}
	hints := adapter.WithRefusal(func(w http.ResponseWriter, _ *http.Request, _ core.Decision) error {
		w.WriteHeader(http.StatusEarlyHints)
		return errHandler
	})
	h := adapter.Build(rootTree([]Step{exhausted(hints)}, "POST", "/", page))
	if got, _ := exchange(t, h, io.Discard); got != adapter.ErrorStatus {
		t.Errorf("after early hints: got %d, want %d", got, adapter.ErrorStatus)
	}
}
