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
)

func hello(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") }

// show prints what a client sees of its limit.
func show(h http.Handler, method, path string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	limit, left := w.Header().Get("X-RateLimit-Limit"), w.Header().Get("X-RateLimit-Remaining")
	if limit == "" {
		fmt.Println(method, path, w.Code)
		return
	}
	fmt.Println(method, path, w.Code, "with", left, "of", limit, "left")
}

// A limit for a group of routes, and a tighter one for a route inside it. Both
// hold, and the client reads about the inner one.
func ExampleMiddleware() {
	api := core.Must(core.New(core.Config{
		Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerMinute(100)},
	}))
	search := core.Must(api.Rule("search", core.PerMinute(10)))

	r := chi.NewRouter()
	r.Get("/health", hello) // not limited
	r.Route("/api", func(r chi.Router) {
		r.Use(sashchi.Middleware(api, keyfuncs.RemoteIP))
		r.Get("/items/{id}", hello) // one count, whatever the id
		r.With(sashchi.Middleware(search, keyfuncs.RemoteIP)).Get("/search", hello)
	})

	show(r, "GET", "/api/items/1")
	show(r, "GET", "/api/items/2")
	show(r, "GET", "/api/search")
	show(r, "GET", "/health")
	// Output:
	// GET /api/items/1 200 with 99 of 100 left
	// GET /api/items/2 200 with 98 of 100 left
	// GET /api/search 200 with 9 of 10 left
	// GET /health 200
}
