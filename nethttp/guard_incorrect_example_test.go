package nethttp_test

import (
	"net/http"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
)

// INCORRECT: a limit that is made in the handler starts to count with each request, and refuses none.
func ExampleMiddleware_incorrectMadeInHandler() {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit := nethttp.LimitByIP(core.PerHour(1)) // wrong: counts this request alone
		limit(hello).ServeHTTP(w, r)
	})
	// Right, once when the program starts: handler := nethttp.LimitByIP(core.PerHour(1))(hello)
	show(handler, "/")
	show(handler, "/")
	// Output:
	// / 200
	// / 200
}

// INCORRECT: a guard around the handler of one route does not limit the other routes, nor requests without a route.
func ExampleMiddleware_incorrectInsideMux() {
	limit := nethttp.LimitByIP(core.PerHour(1))
	mux := http.NewServeMux()
	mux.Handle("/search", limit(hello)) // wrong: no other route has a limit
	mux.Handle("/export", hello)
	// Right, around all routes: handler := limit(mux)
	for _, path := range []string{"/search", "/search", "/export", "/export", "/.env"} {
		show(mux, path)
	}
	// Output:
	// /search 200
	// /search 429
	// /export 200
	// /export 200
	// /.env 404
}
