package adaptertest

import (
	"net/http"
	"slices"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
)

// hostile are targets that are not /health, even if a router takes them for it.
var hostile = []string{
	"/healthz", "/Health", "//health", "/api/../health", "/./health", "/api/..%2fhealth",
	"/%68ealth", "/heal%2fth", "/health;a", "/healt%68?a=b",
}

// exclusions checks that excluded paths and skipped requests do not ask the store,
// and that similar paths do.
func exclusions(t *testing.T, adapter Adapter) {
	s := newStore()
	l := on(s, core.PerMinute(1))
	var routes []Route
	for _, pattern := range []string{"/health", "/ready", "/work"} {
		routes = append(routes, route("GET", pattern, nil, page))
	}
	h := adapter.Build(Tree{Use: by(l, nethttp.SkipPaths("/health", "/ready")), Routes: routes})
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
	h = adapter.Build(Tree{Routes: []Route{route("GET", "/work", by(l, byHeader), page)}})
	expect(t, serve(t, h, "GET", "/work", "X-Internal", "1"), 200, "", "")
	if n := s.asked(); n != 0 {
		t.Errorf("a skipped request asked the store %d times", n)
	}
	expect(t, serve(t, h, "GET", "/work"), 429, "1", "0")
}

// excludedMethods checks that SkipPaths excludes a path for GET and HEAD, or for
// the given method. Another method of the same path may belong to another
// handler, so the guard limits it.
func excludedMethods(t *testing.T, adapter Adapter) {
	s := newStore()
	reached := 0
	skip := nethttp.SkipPaths("/health", "GET /ready", "HEAD /head", "POST /hook", "OPTIONS /cors")
	h := adapter.Build(Tree{
		Use: by(on(s, core.PerMinute(1)), skip),
		Routes: []Route{
			route("GET", "/health", nil, page),
			route("POST", "/{any}", nil, func(w http.ResponseWriter, r *http.Request) { reached++; page(w, r) }),
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
func prefixes(t *testing.T, adapter Adapter) {
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
		tree := Tree{Prefix: "/api", Group: guard, Routes: []Route{route("GET", "/health", nil, page)}}
		w := serve(t, http.StripPrefix(c.strip, adapter.Build(tree)), "GET", c.target)
		if skipped := s.asked() == 0; skipped != c.want {
			t.Errorf("%s: %d, skipped %v, want %v", c.name, w.Code, skipped, c.want)
		}
	}
}
