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

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// A limit for a group and a tighter one for a route inside it: both hold, and
// the client reads about the tighter.
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
	for i := range 9 { // what the route's limit refused, the group's has counted
		expect(t, serve(t, h, "GET", "/api/items/1"), 200, "20", strconv.Itoa(8-i))
	}
	s.asked()
	expect(t, serve(t, h, "GET", "/api/search"), 429, "20", "0")
	if n := s.asked(); n != 1 || reached != 10 {
		t.Errorf("the store was asked %d times after the group's refusal; the handler was reached %d times", n, reached)
	}
}

func manyPaths(t *testing.T, f Framework) {
	const paths, admitted = 100_000, 99_000
	s := newStore()
	seen := map[string]int{}
	l := core.Must(core.New(core.Config{Store: s, Limits: []core.Limit{core.PerMinute(admitted)}, Observer: core.ObserverFunc(func(_ context.Context, e core.Event) { seen[e.Label]++ })}))
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
		t.Errorf("%d of %d paths were served at a limit of %d; %d keys; labels %v", served, paths, admitted, len(s.keys), seen)
	}
}

// sink is a ResponseWriter that keeps nothing.
type sink struct{ header http.Header }

func (s sink) Header() http.Header         { return s.header }
func (s sink) Write(b []byte) (int, error) { return len(b), nil }
func (s sink) WriteHeader(int)             {}

// An adapter costs no more than any middleware of its framework, and one
// allocation for the fields of the response.
func allocations(t *testing.T, f Framework) {
	l := Limiter(core.PerHour(100_000))
	key := func(*http.Request) (string, error) { return "user:everybody", nil }
	least := func(s Step) float64 {
		h := f.Build(Tree{Routes: []Route{{"GET", "/", []Step{s}, func(http.ResponseWriter, *http.Request) {}}}})
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		w := sink{http.Header{}}
		least := math.Inf(1)
		for range 100 { // the frameworks' pools may lose what was put into them
			least = min(least, testing.AllocsPerRun(1, func() {
				clear(w.header)
				h.ServeHTTP(w, r)
			}))
		}
		return least
	}
	with, without := least(Step{Limiter: l, Key: key}), least(Step{Spy: func() {}})
	if with-without > 1 {
		t.Errorf("%v allocations with the limit, %v with a middleware that does nothing", with, without)
	}
}

// Two routes with different rules never share a count; two that are given the
// same rule do.
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

// hostile are targets that are not /health, whatever a router makes of them.
var hostile = []string{"/healthz", "/Health", "//health", "/api/../health", "/./health", "/api/..%2fhealth", "/%68ealth", "/heal%2fth", "/health;a", "/healt%68?a=b"}

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

// SkipPaths compares the request's path: whole inside groups and mounted
// routers, and what is left behind an http.StripPrefix.
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
		h := http.StripPrefix(c.strip, f.Build(Tree{Prefix: "/api", Group: guard, Routes: []Route{{"GET", "/health", nil, page}}}))
		w := serve(t, h, "GET", c.target)
		if skipped := s.asked() == 0; skipped != c.want {
			t.Errorf("%s: %d, skipped %v, want %v", c.name, w.Code, skipped, c.want)
		}
	}
}

func labels(t *testing.T, f Framework) {
	var seen []string
	l := core.Must(core.New(core.Config{Store: newStore(), Limits: []core.Limit{core.PerMinute(9)}, Observer: core.ObserverFunc(func(_ context.Context, e core.Event) { seen = append(seen, e.Label) })}))
	h := f.Build(Tree{Use: by(l), Prefix: "/api", Group: by(l), Routes: []Route{{"GET", "/items/{id}", by(l), page}}})
	serve(t, h, "GET", "/api/items/17")
	if want := []string{f.RootLabel, f.GroupLabel, f.RouteLabel}; !slices.Equal(seen, want) {
		t.Errorf("labels %q, want %q", seen, want)
	}
	seen = nil
	serve(t, h, "GET", "/nowhere/17")
	if len(seen) != 1 || seen[0] != "" {
		t.Errorf("labels %q where nothing matches", seen)
	}
}

// broken is a store that cannot be asked.
type broken struct{}

func (broken) Bind(core.Rule) (core.Counts, error) { return broken{}, nil }
func (broken) Take(context.Context, string, int64, bool) (core.Decision, error) {
	return core.Decision{}, errors.New("down")
}
func (broken) Reset(context.Context, string) error { return errors.New("down") }

// A refusal is the same as that of net/http's middleware, byte for byte, and
// nothing behind it is reached: no handler and no later middleware.
func refusals(t *testing.T, f Framework) {
	custom := nethttp.WithRefusal(func(w http.ResponseWriter, r *http.Request, d core.Decision) {
		w.Header().Set("X-Custom", "yes")
		w.WriteHeader(nethttp.Status(d))
		_, _ = io.WriteString(w, "custom")
	})
	for _, c := range []struct {
		name   string
		status int
		step   func() Step
		header []string
	}{
		{"429", 429, func() Step { return spent() }, nil},
		{"429 in text", 429, func() Step { return spent() }, []string{"Accept", "text/plain"}},
		{"429 in both formats", 429, func() Step { return spent(nethttp.WithHeaders(headers.Classic, headers.IETF)) }, nil},
		{"429 custom", 429, func() Step { return spent(custom) }, nil},
		{"429 that is never served", 429, func() Step {
			return by(Limiter(core.PerMinute(3)), nethttp.WithCost(func(*http.Request) int { return 4 }))[0]
		}, nil},
		{"503", 503, func() Step { return by(on(broken{}, core.PerMinute(3)).WithPolicy(core.FailClosed))[0] }, nil},
		{"400", 400, func() Step {
			return Step{Limiter: Limiter(core.PerMinute(3)), Key: keyfuncs.Header("X-Tenant")}
		}, nil},
		{"500", 500, func() Step {
			return Step{Limiter: Limiter(core.PerMinute(3)), Key: func(*http.Request) (string, error) { return "", errors.New("secret") }}
		}, nil},
	} {
		for _, method := range []string{"GET", "HEAD", "POST"} {
			t.Run(c.name+" "+method, func(t *testing.T) {
				reached := ""
				spy := Step{Spy: func() { reached += "middleware " }}
				handler := func(http.ResponseWriter, *http.Request) { reached += "handler" }
				step := c.step()
				reference := serve(t, nethttp.Middleware(step.Limiter, step.Key, step.Options...)(http.NotFoundHandler()), method, "/api/work", c.header...)
				if reference.Code != c.status {
					t.Fatalf("the reference answers %d", reference.Code)
				}
				for place, tree := range map[string]Tree{
					"root":  {Use: []Step{c.step(), spy}, Routes: []Route{{method, "/api/work", []Step{spy}, handler}}},
					"group": {Use: nil, Prefix: "/api", Group: []Step{c.step(), spy}, Routes: []Route{{method, "/work", []Step{spy}, handler}}},
					"route": {Use: nil, Prefix: "/api", Routes: []Route{{method, "/work", []Step{c.step(), spy}, handler}}},
				} {
					got := serve(t, f.Build(tree), method, "/api/work", c.header...)
					if got.Code != c.status || got.Body.String() != reference.Body.String() || !maps.EqualFunc(got.Header(), reference.Header(), slices.Equal) {
						t.Errorf("%s: got %d %v %s\nwant %d %v %s", place, got.Code, got.Header(), got.Body, reference.Code, reference.Header(), reference.Body)
					}
					if reached != "" {
						t.Errorf("%s: a refused request reached %s", place, reached)
						reached = ""
					}
				}
			})
		}
	}

	// The request's own end: 503, and nothing else.
	h := f.Build(Tree{Use: by(Limiter(core.PerMinute(3))), Routes: []Route{{"GET", "/work", nil, page}}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/work", nil).WithContext(ctx))
	if w.Code != 503 || w.Body.Len() != 0 {
		t.Errorf("an ended request: %d %q", w.Code, w.Body)
	}

	// Fail-open serves without numbers.
	h = f.Build(Tree{Use: by(on(broken{}, core.PerMinute(3))), Routes: []Route{{"GET", "/work", nil, page}}})
	expect(t, serve(t, h, "GET", "/work"), 200, "", "")
}

// spent is a limit that the test's client has used up.
func spent(opts ...nethttp.Option) Step {
	l := Limiter(core.PerMinute(1))
	key, err := keyfuncs.RemoteIP(httptest.NewRequest("GET", "/", nil))
	if d := l.Allow(context.Background(), key); err != nil || !d.Allowed {
		panic(fmt.Sprint(d, err))
	}
	return by(l, opts...)[0]
}

// What is wrong is a panic while the program starts, and says what to do.
func panicking(t *testing.T, f Framework) {
	l := Limiter(core.PerMinute(3))
	type elsewhere struct{}
	for name, f := range map[string]func(){
		"limiter":    func() { f.Middleware(nil, keyfuncs.RemoteIP) },
		"key":        func() { f.Middleware(l, nil) },
		"path":       func() { f.Middleware(l, keyfuncs.RemoteIP, nethttp.SkipPaths("health")) },
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
