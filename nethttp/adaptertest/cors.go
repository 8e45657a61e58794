package adaptertest

import (
	"net/http"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
)

func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// allowOrigin is a CORS middleware, which answers preflights.
func allowOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "https://app.example")
		if isPreflight(r) {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// cors checks that a preflight is counted like any other request, unless it is
// skipped or a CORS middleware outside the guard answers it. Only a CORS
// middleware outside the guard sets its fields on a 429.
func cors(t *testing.T, adapter Adapter) {
	noContent := func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) }
	unchanged := func(h http.Handler) http.Handler { return h }
	for _, c := range []struct {
		name  string
		opts  []nethttp.Option
		wrap  func(http.Handler) http.Handler
		asked int
		left  string
	}{
		{"counted", nil, unchanged, 1, "0"},
		{"skipped", []nethttp.Option{nethttp.Skip(isPreflight)}, unchanged, 0, "1"},
		{"outside", nil, allowOrigin, 0, "1"},
	} {
		store := newStore()
		h := c.wrap(adapter.Build(Tree{
			Use:    by(on(store, core.PerMinute(2)), c.opts...),
			Routes: []Route{route("GET", "/", nil, page), route("OPTIONS", "/", nil, noContent)},
		}))
		w := serve(t, h, "OPTIONS", "/", "Origin", "https://app.example", "Access-Control-Request-Method", "GET")
		if n := store.asked(); w.Code != 204 || n != c.asked {
			t.Errorf("%s: the preflight got %d and asked the store %d times, want %d", c.name, w.Code, n, c.asked)
		}
		expect(t, serve(t, h, "GET", "/", "Origin", "https://app.example"), 200, "2", c.left)
		for range 2 {
			w = serve(t, h, "GET", "/", "Origin", "https://app.example")
		}
		readable := w.Header().Get("Access-Control-Allow-Origin") != ""
		if w.Code != 429 || readable != (c.name == "outside") {
			t.Errorf("%s: %d %v", c.name, w.Code, w.Header())
		}
	}
}
