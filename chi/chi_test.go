package sashchi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/sashlimit/sash/chi"
	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/internal/fakeclock"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp/adaptertest"
)

func steps(steps []adaptertest.Step) (all []func(http.Handler) http.Handler) {
	for _, s := range steps {
		if s.Spy == nil {
			all = append(all, sashchi.Middleware(s.Limiter, s.Key, s.Options...))
			continue
		}
		all = append(all, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s.Spy()
				next.ServeHTTP(w, r)
			})
		})
	}
	return all
}

func build(t adaptertest.Tree) http.Handler {
	root := chi.NewRouter()
	root.Use(steps(t.Use)...)
	group := func(r chi.Router) {
		r.Use(steps(t.Group)...)
		for _, route := range t.Routes {
			r.With(steps(route.Steps)...).Method(route.Method, route.Pattern, route.Handler)
		}
	}
	if t.Prefix == "" {
		root.Group(group)
	} else {
		root.Route(t.Prefix, group)
	}
	return root
}

func TestBehaviour(t *testing.T) {
	adaptertest.Run(t, adaptertest.Adapter{
		Build:      build,
		RootLabel:  "/api/items/{id}",
		GroupLabel: "/api/items/{id}",
		RouteLabel: "/api/items/{id}",
	})
}

func ok(http.ResponseWriter, *http.Request) {}

// TestUnmatched: where no route matches, a guard in a router's Use counts everything that reaches the router, and one
// in a Group the routes alone. TestBehaviour has those at the root and at a route.
func TestUnmatched(t *testing.T) {
	for _, c := range []struct {
		name  string
		mount func(r chi.Router, limit func(http.Handler) http.Handler)
		want  map[string]bool // target: counted
	}{
		{"Route and Mount", func(r chi.Router, limit func(http.Handler) http.Handler) {
			r.Route("/api", func(r chi.Router) { r.Use(limit); r.Post("/items", ok) })
			sub := chi.NewRouter()
			sub.Use(limit)
			sub.Post("/items", ok)
			r.Mount("/mounted", sub)
		}, map[string]bool{"/api/items": true, "/api/nowhere": true, "/api": true, "/": false,
			"/mounted/items": true, "/mounted/nowhere": true}},
		{"Group", func(r chi.Router, limit func(http.Handler) http.Handler) {
			r.Group(func(r chi.Router) { r.Use(limit); r.Post("/api/items", ok) })
		}, map[string]bool{"/api/items": false, "/api/nowhere": false, "/": false}},
	} {
		r := chi.NewRouter()
		c.mount(r, sashchi.Middleware(fakeclock.Limiter(core.PerMinute(100)), keyfuncs.AllClients))
		for target, counted := range c.want {
			w := fakeclock.Get(r, target)
			if got := w.Header().Get("X-RateLimit-Limit") != ""; got != counted || w.Code < 400 {
				t.Errorf("%s: GET %s: got %d, counted %v, want %v", c.name, target, w.Code, got, counted)
			}
		}
	}
}

// TestLabels: the label is the whole pattern of the route, in the Use of whichever router.
func TestLabels(t *testing.T) {
	var label string
	l := core.Must(core.New(core.Config{
		Store: memstore.New(), Limits: []core.Limit{core.PerMinute(1000)},
		Observer: core.ObserverFunc(func(_ context.Context, e core.Event) { label = e.Label }),
	}))
	limit := sashchi.Middleware(l, keyfuncs.RemoteIP)
	routes := func(r chi.Router) {
		r.Get("/", ok)
		r.Get("/users/{id}", ok)
		r.Handle("/files/*", http.HandlerFunc(ok))
	}
	root := chi.NewRouter()
	root.Use(limit)
	root.Route("/admin", routes)
	mounted := chi.NewRouter()
	mounted.Route("/admin", func(r chi.Router) {
		r.Use(limit)
		r.Route("/", routes)
	})
	inline := chi.NewRouter()
	inline.With(limit).Get("/admin/users/{id}", ok)
	mux := http.NewServeMux()
	mux.Handle("/", root)
	for _, c := range []struct {
		router       http.Handler
		method, path string
		want         string
	}{
		{root, "GET", "/admin/users/17", "/admin/users/{id}"},
		{root, "GET", "/admin/users/%31%2f7", "/admin/users/{id}"},
		{root, "GET", "/admin", "/admin"},
		{root, "PUT", "/admin/files/a/b", "/admin/files/*"},
		{root, "POST", "/admin/users/17", ""},
		{root, "GET", "/nowhere/17", ""},
		{root, "STRANGE", "/admin/users/17", ""},
		{mounted, "GET", "/admin/users/17", "/admin/users/{id}"},
		{mounted, "GET", "/admin/nowhere/17", "/admin/*"},
		{inline, "GET", "/admin/users/17", "/admin/users/{id}"},
		{limit(http.HandlerFunc(ok)), "GET", "/admin/users/17", ""},
		{mux, "GET", "/admin/users/17", "/admin/users/{id}"},
		{mux, "GET", "/nowhere/17", "/"},
	} {
		label = "none"
		c.router.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(c.method, c.path, nil))
		if label != c.want {
			t.Errorf("%s %s: got the label %q, want %q", c.method, c.path, label, c.want)
		}
	}
}
