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
	api := newLimiter(core.PerMinute(20))
	search := core.Must(api.Rule("search", core.PerMinute(10)))
	reached := 0
	counting := func(w http.ResponseWriter, r *http.Request) { reached++; page(w, r) }
	h := adapter.Build(Tree{Prefix: "/api", Group: []Step{step(api, nethttp.SkipPaths("/api/health"))}, Routes: []Route{
		route("GET", "/search", []Step{step(search)}, counting),
		route("GET", "/items/{id}", nil, page),
		route("GET", "/health", nil, page),
	}})
	for i := range 10 {
		expect(t, serve(h, "GET", "/api/search"), 200, "10", strconv.Itoa(9-i))
	}
	expect(t, serve(h, "GET", "/api/health"), 200, "", "")
	w := serve(h, "GET", "/api/search")
	expect(t, w, 429, "10", "0")
	if reached != 10 || w.Header().Get("Retry-After") != "60" {
		t.Errorf("got the handler reached %d times and %v, want 10 times and Retry-After 60", reached, w.Header())
	}
	for i := range 9 { // the group's limit has counted the refused request too
		expect(t, serve(h, "GET", "/api/items/1"), 200, "20", strconv.Itoa(8-i))
	}
	expect(t, serve(h, "GET", "/api/search"), 429, "20", "0")
	if reached != 10 {
		t.Errorf("got the handler reached %d times behind a refusal of the group, want 10", reached)
	}
}
