package adaptertest

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
)

// groupAndRoute checks a limit of a group and a tighter limit of a route inside
// the group: both hold, and the response tells the client about the route's. A path that
// the group skips is compared whole.
func groupAndRoute(t *testing.T, adapter Adapter) {
	s := newStore()
	api := on(s, core.PerMinute(20))
	search := rule(api, "search", core.PerMinute(10))
	reached := 0
	h := adapter.Build(Tree{Prefix: "/api", Group: by(api, nethttp.SkipPaths("/api/health")), Routes: []Route{
		route("GET", "/search", by(search), func(w http.ResponseWriter, r *http.Request) { reached++; page(w, r) }),
		route("GET", "/items/{id}", nil, page),
		route("GET", "/health", nil, page),
	}})
	for i := range 10 {
		expect(t, serve(t, h, "GET", "/api/search"), 200, "10", strconv.Itoa(9-i))
	}
	expect(t, serve(t, h, "GET", "/api/health"), 200, "", "")
	if n := s.asked(); n != 20 {
		t.Errorf("got %d calls of the store for 10 requests behind 2 limits and a skipped one, want 20", n)
	}
	w := serve(t, h, "GET", "/api/search")
	expect(t, w, 429, "10", "0")
	if reached != 10 || w.Header().Get("Retry-After") != "60" {
		t.Errorf("got the handler reached %d times and %v, want 10 times and Retry-After 60", reached, w.Header())
	}
	for i := range 9 { // the group's limit has counted the refused request too
		expect(t, serve(t, h, "GET", "/api/items/1"), 200, "20", strconv.Itoa(8-i))
	}
	s.asked()
	expect(t, serve(t, h, "GET", "/api/search"), 429, "20", "0")
	if n := s.asked(); n != 1 || reached != 10 {
		t.Errorf("got %d calls of the store for the group's refusal, the handler reached %d times, want 1 and 10",
			n, reached)
	}
}
