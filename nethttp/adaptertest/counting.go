package adaptertest

import (
	"fmt"
	"net/http"
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
	expect := func(path, want string) http.Header {
		t.Helper()
		w := serve(h, "GET", path)
		got := fmt.Sprint(w.Code, w.Header()["X-Ratelimit-Limit"], w.Header()["X-Ratelimit-Remaining"])
		if got != want {
			t.Fatalf("%s: got %s, want %s", path, got, want)
		}
		return w.Header()
	}
	for i := range 10 {
		expect("/api/search", fmt.Sprintf("200 [10] [%d]", 9-i))
	}
	expect("/api/health", "200 [] []")
	header := expect("/api/search", "429 [10] [0]")
	if reached != 10 || header.Get("Retry-After") != "60" {
		t.Errorf("got the handler reached %d times and %v, want 10 times and Retry-After 60", reached, header)
	}
	for i := range 9 { // the group's limit has counted the refused request too
		expect("/api/items/1", fmt.Sprintf("200 [20] [%d]", 8-i))
	}
	expect("/api/search", "429 [20] [0]")
	if reached != 10 {
		t.Errorf("got the handler reached %d times behind a refusal of the group, want 10", reached)
	}
}
