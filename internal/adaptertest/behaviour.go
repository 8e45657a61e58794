package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// groupAndRoute checks a limit of a group and a tighter limit of a route inside
// the group: both hold, and the response tells the client about the tighter one.
func groupAndRoute(t *testing.T, f Framework) {
	s := newStore()
	api := on(s, core.PerMinute(20))
	search := rule(api, "search", core.PerMinute(10))
	reached := 0
	h := f.Build(Tree{Prefix: "/api", Group: by(api), Routes: []Route{
		{"GET", "/search", by(search), func(w http.ResponseWriter, r *http.Request) { reached++; page(w, r) }},
		{"GET", "/items/{id}", nil, page},
	}})
	for i := range 10 {
		expect(t, serve(t, h, "GET", "/api/search"), 200, "10", strconv.Itoa(9-i))
	}
	if n := s.asked(); n != 20 {
		t.Errorf("the store was asked %d times for 10 requests behind 2 limits", n)
	}
	w := serve(t, h, "GET", "/api/search")
	expect(t, w, 429, "10", "0")
	if reached != 10 || w.Header().Get("Retry-After") != "60" {
		t.Errorf("the handler was reached %d times; %v", reached, w.Header())
	}
	for i := range 9 { // the group's limit has counted the refused request too
		expect(t, serve(t, h, "GET", "/api/items/1"), 200, "20", strconv.Itoa(8-i))
	}
	s.asked()
	expect(t, serve(t, h, "GET", "/api/search"), 429, "20", "0")
	if n := s.asked(); n != 1 || reached != 10 {
		t.Errorf("the store was asked %d times after the group's refusal; the handler was reached %d times",
			n, reached)
	}
}

// manyPaths checks that the paths of one route share one key and one label.
func manyPaths(t *testing.T, f Framework) {
	const paths, admitted = 100_000, 99_000
	s := newStore()
	seen := map[string]int{}
	l := core.Must(core.New(core.Config{
		Store:    s,
		Limits:   []core.Limit{core.PerMinute(admitted)},
		Observer: core.ObserverFunc(func(_ context.Context, e core.Event) { seen[e.Label]++ }),
	}))
	served := 0
	h := f.Build(Tree{Prefix: "/api", Routes: []Route{
		{"GET", "/items/{id}", by(l), func(http.ResponseWriter, *http.Request) { served++ }},
	}})
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for i := range paths {
		u := *r.URL
		u.Path = "/api/items/" + strconv.Itoa(i)
		each := *r
		each.URL, each.RequestURI = &u, u.Path
		h.ServeHTTP(sink{http.Header{}}, &each)
	}
	if served != admitted || len(s.keys) != 1 || seen[f.RouteLabel] != paths || len(seen) != 1 {
		t.Errorf("%d of %d paths were served at a limit of %d; %d keys; labels %v",
			served, paths, admitted, len(s.keys), seen)
	}
}

// sink is a ResponseWriter that keeps only the header.
type sink struct{ header http.Header }

func (s sink) Header() http.Header         { return s.header }
func (s sink) Write(b []byte) (int, error) { return len(b), nil }
func (s sink) WriteHeader(int)             {}

// allocations checks that an adapter makes at most one allocation more than a
// middleware of its framework that does nothing: the one for the header fields.
func allocations(t *testing.T, f Framework) {
	l := Limiter(core.PerHour(100_000))
	least := func(s Step) float64 {
		h := f.Build(Tree{Routes: []Route{{"GET", "/", []Step{s}, func(http.ResponseWriter, *http.Request) {}}}})
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		w := sink{http.Header{}}
		least := math.Inf(1)
		for range 100 { // the least of many, since the frameworks' pools may lose their contents
			least = min(least, testing.AllocsPerRun(1, func() {
				clear(w.header)
				h.ServeHTTP(w, r)
			}))
		}
		return least
	}
	with, without := least(Step{Limiter: l, Key: sameKey}), least(Step{Spy: func() {}})
	if with-without > 1 {
		t.Errorf("%v allocations with the limit, %v with a middleware that does nothing", with, without)
	}
}

// sharedRules checks that routes with different rules never share a count, and
// that routes with the same rule do.
func sharedRules(t *testing.T, f Framework) {
	l := Limiter(core.PerMinute(5))
	a, b := rule(l, "a", core.PerMinute(5)), rule(l, "b", core.PerMinute(5))
	h := f.Build(Tree{Routes: []Route{
		{"GET", "/a", by(a), page},
		{"GET", "/b1", by(b), page},
		{"GET", "/b2", by(rule(l, "b", core.PerMinute(5))), page},
		{"POST", "/b1", by(b), page},
	}})
	for i := range 5 {
		expect(t, serve(t, h, "GET", "/a"), 200, "5", strconv.Itoa(4-i))
	}
	expect(t, serve(t, h, "GET", "/a"), 429, "5", "0")
	expect(t, serve(t, h, "GET", "/b1"), 200, "5", "4")
	expect(t, serve(t, h, "GET", "/b2"), 200, "5", "3")
	expect(t, serve(t, h, "POST", "/b1"), 200, "5", "2")
}

// hostile are targets that are not /health, even if a router takes them for it.
var hostile = []string{
	"/healthz", "/Health", "//health", "/api/../health", "/./health", "/api/..%2fhealth",
	"/%68ealth", "/heal%2fth", "/health;a", "/healt%68?a=b",
}

// exclusions checks that excluded paths and skipped requests do not ask the store,
// and that similar paths do.
func exclusions(t *testing.T, f Framework) {
	s := newStore()
	l := on(s, core.PerMinute(1))
	routes := []Route{{"GET", "/health", nil, page}, {"GET", "/ready", nil, page}, {"GET", "/work", nil, page}}
	h := f.Build(Tree{Use: by(l, nethttp.SkipPaths("/health", "/ready")), Routes: routes})
	for range 3 {
		for _, target := range []string{"/health", "/ready", "/health?full=1"} {
			expect(t, serve(t, h, "GET", target), 200, "", "")
		}
	}
	if n := s.asked(); n != 0 {
		t.Errorf("excluded requests asked the store %d times", n)
	}
	expect(t, serve(t, h, "GET", "/work"), 200, "1", "0")
	s.asked()
	for _, target := range hostile {
		if w := serve(t, h, "GET", target); w.Code != 429 || s.asked() != 1 {
			t.Errorf("%s is not limited: %d", target, w.Code)
		}
	}

	byHeader := nethttp.Skip(func(r *http.Request) bool { return r.Header.Get("X-Internal") != "" })
	h = f.Build(Tree{Routes: []Route{{"GET", "/work", by(l, byHeader), page}}})
	expect(t, serve(t, h, "GET", "/work", "X-Internal", "1"), 200, "", "")
	if n := s.asked(); n != 0 {
		t.Errorf("a skipped request asked the store %d times", n)
	}
	expect(t, serve(t, h, "GET", "/work"), 429, "1", "0")
}

// excludedMethods checks that SkipPaths excludes a path for GET and HEAD, or for
// the given method. Another method of the same path may belong to another
// handler, so the guard limits it.
func excludedMethods(t *testing.T, f Framework) {
	s := newStore()
	reached := 0
	skip := nethttp.SkipPaths("/health", "GET /ready", "HEAD /head", "POST /hook", "OPTIONS /cors")
	h := f.Build(Tree{
		Use: by(on(s, core.PerMinute(1)), skip),
		Routes: []Route{
			{"GET", "/health", nil, page},
			{"POST", "/{any}", nil, func(w http.ResponseWriter, r *http.Request) { reached++; page(w, r) }},
		},
	})
	excluded := map[string][]string{
		"/health": {"GET", "HEAD"},
		"/ready":  {"GET", "HEAD"},
		"/head":   {"HEAD"},
		"/hook":   {"POST"},
		"/cors":   {"OPTIONS"},
	}
	for path, methods := range excluded {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "get", "PROPFIND"} {
			w := serve(t, h, method, path)
			if skipped, want := s.asked() == 0, slices.Contains(methods, method); skipped != want {
				t.Errorf("%s %s: got %d, skipped %v; want skipped %v", method, path, w.Code, skipped, want)
			}
		}
	}
	if reached > 2 { // POST /hook, and one request that the limit admits
		t.Errorf("the catch-all behind a limit of 1 was reached %d times", reached)
	}
}

// prefixes checks which path SkipPaths compares: the whole path inside groups and
// mounted routers, and the rest of the path behind an http.StripPrefix.
func prefixes(t *testing.T, f Framework) {
	for _, c := range []struct {
		name   string
		strip  string
		skip   string
		target string
		want   bool // skipped
	}{
		{"whole in a group", "", "/api/health", "/api/health", true},
		{"not the rest in a group", "", "/health", "/api/health", false},
		{"the rest behind StripPrefix", "/v1", "/api/health", "/v1/api/health", true},
		{"not the whole behind StripPrefix", "/v1", "/v1/api/health", "/v1/api/health", false},
		{"escaped behind StripPrefix", "/v1", "/api/health", "/v1/api/he%61lth", false},
	} {
		s := newStore()
		guard := by(on(s, core.PerMinute(9)), nethttp.SkipPaths(c.skip))
		tree := Tree{Prefix: "/api", Group: guard, Routes: []Route{{"GET", "/health", nil, page}}}
		w := serve(t, http.StripPrefix(c.strip, f.Build(tree)), "GET", c.target)
		if skipped := s.asked() == 0; skipped != c.want {
			t.Errorf("%s: %d, skipped %v, want %v", c.name, w.Code, skipped, c.want)
		}
	}
}

// labels checks the labels that an observer gets, also of refused requests. They are
// empty where no route matches.
func labels(t *testing.T, f Framework) {
	var seen []string
	var statuses []int
	l := core.Must(core.New(core.Config{
		Store:  newStore(),
		Limits: []core.Limit{core.PerMinute(4)},
		Observer: core.ObserverFunc(func(_ context.Context, e core.Event) {
			seen, statuses = append(seen, e.Label), append(statuses, e.Status)
		}),
	}))
	h := f.Build(Tree{Use: by(l), Prefix: "/api", Group: by(l), Routes: []Route{{"GET", "/items/{id}", by(l), page}}})
	expectEvents := func(wantLabels []string, wantStatuses []int) {
		t.Helper()
		if !slices.Equal(seen, wantLabels) || !slices.Equal(statuses, wantStatuses) {
			t.Errorf("labels %q and statuses %v, want %q and %v", seen, statuses, wantLabels, wantStatuses)
		}
		seen, statuses = nil, nil
	}
	serve(t, h, "GET", "/api/items/17")
	expectEvents([]string{f.RootLabel, f.GroupLabel, f.RouteLabel}, []int{200, 200, 200})
	serve(t, h, "GET", "/nowhere/17")
	expectEvents([]string{""}, []int{200})
	serve(t, h, "GET", "/api/items/17")
	expectEvents([]string{f.RootLabel}, []int{429})

	nameless := []Step{{Limiter: l, Key: keyfuncs.Header("X-Tenant")}}
	h = f.Build(Tree{Use: nameless, Prefix: "/api", Routes: []Route{{"GET", "/items/{id}", nil, page}}})
	serve(t, h, "GET", "/api/items/17")
	if len(seen) != 1 || statuses[0] != 400 {
		t.Errorf("a request without a key: labels %q and statuses %v", seen, statuses)
	}
}

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
		return by(Limiter(core.PerMinute(3)), nethttp.WithCost(func(*http.Request) int { return 4 }))[0]
	}, nil},
	{"503", 503, func() Step {
		down := on(Broken{}, core.PerMinute(3)).WithPolicy(core.FailClosed)
		return by(down, nethttp.WithRetryAfter(1200*time.Millisecond))[0]
	}, nil},
	{"400", 400, func() Step {
		return Step{Limiter: Limiter(core.PerMinute(3)), Key: keyfuncs.Header("X-Tenant")}
	}, nil},
	{"500", 500, func() Step {
		failing := func(*http.Request) (string, error) { return "", errors.New("secret") }
		return Step{Limiter: Limiter(core.PerMinute(3)), Key: failing}
	}, nil},
}

// refusals checks that a refusal equals the refusal of net/http's middleware, byte
// for byte, and that no handler and no later middleware is reached.
func refusals(t *testing.T, f Framework) {
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
					got := serve(t, f.Build(tree), method, "/api/work", c.header...)
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
func treesAround(step func() Step, spy Step, route Route) map[string]Tree {
	at := func(pattern string, steps ...Step) []Route {
		return []Route{{route.Method, pattern, steps, route.Handler}}
	}
	return map[string]Tree{
		"root":  {Use: []Step{step(), spy}, Routes: at("/api/work", spy)},
		"group": {Prefix: "/api", Group: []Step{step(), spy}, Routes: at("/work", spy)},
		"route": {Prefix: "/api", Routes: at("/work", step(), spy)},
	}
}

// endedRequest checks that a request with a context that has ended gets a 503
// without a body.
func endedRequest(t *testing.T, f Framework) {
	h := f.Build(Tree{Use: by(Limiter(core.PerMinute(3))), Routes: []Route{{"GET", "/work", nil, page}}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/work", nil).WithContext(ctx))
	if w.Code != 503 || w.Body.Len() != 0 {
		t.Errorf("an ended request: got %d %q, want 503 without a body", w.Code, w.Body)
	}
}

// failOpen checks that a limiter that fails open serves without limit fields.
func failOpen(t *testing.T, f Framework) {
	h := f.Build(Tree{Use: by(on(Broken{}, core.PerMinute(3))), Routes: []Route{{"GET", "/work", nil, page}}})
	expect(t, serve(t, h, "GET", "/work"), 200, "", "")
}

// spent returns a guard with a limit that the test's client has used up.
func spent(opts ...nethttp.Option) Step {
	l := Limiter(core.PerMinute(1))
	key, err := keyfuncs.RemoteIP(httptest.NewRequest("GET", "/", nil))
	if d := l.Allow(context.Background(), key); err != nil || !d.Allowed {
		panic(fmt.Sprint(d, err))
	}
	return by(l, opts...)[0]
}

// panicking checks that Middleware panics on wrong arguments, with a message of
// more than a few words.
func panicking(t *testing.T, f Framework) {
	l := Limiter(core.PerMinute(3))
	type elsewhere struct{}
	for name, f := range map[string]func(){
		"limiter":    func() { f.Middleware(nil, keyfuncs.RemoteIP) },
		"key":        func() { f.Middleware(l, nil) },
		"path":       func() { f.Middleware(l, keyfuncs.RemoteIP, nethttp.SkipPaths("health")) },
		"count when": func() { f.Middleware(l, keyfuncs.RemoteIP, nethttp.CountWhen(nil)) },
		"cost after": func() { f.Middleware(l, keyfuncs.RemoteIP, nethttp.CostAfter(nil)) },
		"both": func() {
			f.Middleware(l, keyfuncs.RemoteIP,
				nethttp.CostAfter(func(*http.Request, int, int64) int { return 1 }),
				nethttp.CountWhen(func(*http.Request, int) bool { return true }))
		},
		"nil option": func() { f.Middleware(l, keyfuncs.RemoteIP, nil) },
		"other's own": func() {
			f.Middleware(l, keyfuncs.RemoteIP, nethttp.AdapterOption(func(*elsewhere) error { return nil }))
		},
	} {
		func() {
			defer func() {
				if p := recover(); p == nil || len(fmt.Sprint(p)) < 20 {
					t.Errorf("%s: panic %v", name, p)
				}
			}()
			f()
		}()
	}
}
