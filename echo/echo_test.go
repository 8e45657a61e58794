package sashecho_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/echo"
	"github.com/sashlimit/sash/internal/fakeclock"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
	"github.com/sashlimit/sash/nethttp/adaptertest"
)

func steps(steps []adaptertest.Step) (all []echo.MiddlewareFunc) {
	for _, s := range steps {
		if s.Spy == nil {
			all = append(all, sashecho.Middleware(s.Limiter, s.Key, s.Options...))
			continue
		}
		all = append(all, func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error { s.Spy(); return next(c) }
		})
	}
	return all
}

func build(t adaptertest.Tree) http.Handler {
	e := echo.New()
	e.Use(steps(t.Use)...)
	g := e.Group(t.Prefix, steps(t.Group)...)
	for _, r := range t.Routes {
		pattern := strings.NewReplacer("{", ":", "}", "").Replace(r.Pattern)
		handler := func(c echo.Context) error {
			r.Handler(c.Response(), c.Request())
			return r.Err
		}
		g.Add(r.Method, pattern, handler, steps(r.Steps)...)
	}
	return e
}

func TestBehaviour(t *testing.T) {
	adaptertest.Run(t, adaptertest.Adapter{
		Build: build,
		WithRefusal: func(refuse adaptertest.Refusal) nethttp.Option {
			return sashecho.WithRefusal(func(c echo.Context, d core.Decision) error {
				return refuse(c.Response(), c.Request(), d)
			})
		},
		ErrorStatus: http.StatusInternalServerError,

		RootLabel:  "/api/items/:id", // echo routes before Use
		GroupLabel: "/api/items/:id",
		RouteLabel: "/api/items/:id",
	})
}

func ok(c echo.Context) error { return c.String(200, "ok") }

// TestUnmatched: what a guard counts where no route matches. TestBehaviour has one in Use and one at a route.
func TestUnmatched(t *testing.T) {
	for _, c := range []struct {
		name  string
		mount func(e *echo.Echo, limit echo.MiddlewareFunc)
		want  map[string]bool // target: counted
	}{
		{"Pre", func(e *echo.Echo, limit echo.MiddlewareFunc) {
			e.Pre(limit)
			e.POST("/api/items", ok)
		}, map[string]bool{"/api/items": true, "/api/nowhere": true, "/": true}},
		{"group", func(e *echo.Echo, limit echo.MiddlewareFunc) {
			e.Group("/api", limit).POST("/items", ok)
		}, map[string]bool{"/api/items": true, "/api/nowhere": true, "/api": true, "/": false, "/apiary": false}},
	} {
		e := echo.New()
		c.mount(e, sashecho.Middleware(fakeclock.Limiter(core.PerMinute(100)), keyfuncs.AllClients))
		for target, counted := range c.want {
			w := fakeclock.Get(e, target)
			if got := w.Header().Get("X-RateLimit-Limit") != ""; got != counted || w.Code < 400 {
				t.Errorf("%s: GET %s: got %d, counted %v, want %v", c.name, target, w.Code, got, counted)
			}
		}
	}
}
