package adaptertest

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/sashlimit/sash/core"
)

// groupAndRoute checks a limit of a group and a tighter limit of a route inside
// the group: both hold, and the response tells the client about the route's.
func groupAndRoute(t *testing.T, adapter Adapter) {
	s := newStore()
	api := on(s, core.PerMinute(20))
	search := rule(api, "search", core.PerMinute(10))
	reached := 0
	h := adapter.Build(Tree{Prefix: "/api", Group: by(api), Routes: []Route{
		route("GET", "/search", by(search), func(w http.ResponseWriter, r *http.Request) { reached++; page(w, r) }),
		route("GET", "/items/{id}", nil, page),
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

// sharedRules checks that routes with different rules never share a count, and
// that routes with the same rule do.
func sharedRules(t *testing.T, adapter Adapter) {
	l := newLimiter(core.PerMinute(5))
	a, b := rule(l, "a", core.PerMinute(5)), rule(l, "b", core.PerMinute(5))
	h := adapter.Build(Tree{Routes: []Route{
		route("GET", "/a", by(a), page),
		route("GET", "/b1", by(b), page),
		route("GET", "/b2", by(rule(l, "b", core.PerMinute(5))), page),
		route("POST", "/b1", by(b), page),
	}})
	for i := range 5 {
		expect(t, serve(t, h, "GET", "/a"), 200, "5", strconv.Itoa(4-i))
	}
	expect(t, serve(t, h, "GET", "/a"), 429, "5", "0")
	expect(t, serve(t, h, "GET", "/b1"), 200, "5", "4")
	expect(t, serve(t, h, "GET", "/b2"), 200, "5", "3")
	expect(t, serve(t, h, "POST", "/b1"), 200, "5", "2")
}
