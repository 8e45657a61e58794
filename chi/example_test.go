package sashchi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/go-chi/chi/v5"

	"github.com/sashlimit/sash/chi"
	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

func ExampleMiddleware() {
	api := core.Must(core.New(core.Config{Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerHour(100)}}))
	search := core.Must(api.Rule("search", core.PerHour(10))) // has a count of its own
	hello := func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") }

	r := chi.NewRouter()
	r.Use(sashchi.Middleware(api, keyfuncs.RemoteIP, nethttp.SkipPaths("/health")))
	r.Get("/items/{id}", hello)
	r.With(sashchi.Middleware(search, keyfuncs.RemoteIP)).Get("/search", hello)
	r.Get("/health", hello)
	for _, path := range []string{"/items/1", "/items/2", "/search", "/health"} {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Printf("%s %d %q\n", path, w.Code, w.Header().Get("X-RateLimit-Remaining"))
	}
	// Output:
	// /items/1 200 "99"
	// /items/2 200 "98"
	// /search 200 "9"
	// /health 200 ""
}
