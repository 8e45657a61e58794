package sashecho5_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/echo5"
	"github.com/sashlimit/sash/internal/still"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
	"github.com/sashlimit/sash/nethttp/adaptertest"
)

func steps(steps []adaptertest.Step) (all []echo.MiddlewareFunc) {
	for _, s := range steps {
		if s.Spy == nil {
			all = append(all, sashecho5.Middleware(s.Limiter, s.Key, s.Options...))
			continue
		}
		all = append(all, func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c *echo.Context) error { s.Spy(); return next(c) }
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
		handler := func(c *echo.Context) error {
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
			return sashecho5.WithRefusal(func(c *echo.Context, d core.Decision) error {
				return refuse(c.Response(), c.Request(), d)
			})
		},
		ErrorStatus: http.StatusInternalServerError,

		RootLabel:  "/api/items/:id", // echo routes before Use
		GroupLabel: "/api/items/:id",
		RouteLabel: "/api/items/:id",
	})
}

func ok(c *echo.Context) error { return c.String(200, "ok") }

// What a guard counts where no route matches.
func TestUnmatched(t *testing.T) {
	for _, c := range []struct {
		name   string
		config echo.Config
		mount  func(e *echo.Echo, limit echo.MiddlewareFunc)
		want   map[string]bool // target: counted
	}{
		{"Pre", echo.Config{}, func(e *echo.Echo, limit echo.MiddlewareFunc) {
			e.Pre(limit)
			e.POST("/api/items", ok)
		}, map[string]bool{"/api/items": true, "/api/nowhere": true, "/": true}},
		{"Use", echo.Config{}, func(e *echo.Echo, limit echo.MiddlewareFunc) {
			e.POST("/api/items", ok)
			e.Use(limit)
		}, map[string]bool{"/api/items": true, "/api/nowhere": true, "/": true}},
		{"group", echo.Config{}, func(e *echo.Echo, limit echo.MiddlewareFunc) {
			e.Group("/api", limit).POST("/items", ok)
		}, map[string]bool{"/api/items": true, "/api/nowhere": true, "/api": true, "/": false, "/apiary": false}},
		{"group without routes of its own", echo.Config{NoGroupAutoRegister404Routes: true},
			func(e *echo.Echo, limit echo.MiddlewareFunc) { e.Group("/api", limit).POST("/items", ok) },
			map[string]bool{"/api/items": false, "/api/nowhere": false, "/api": false}},
		{"route", echo.Config{}, func(e *echo.Echo, limit echo.MiddlewareFunc) {
			e.POST("/api/items", ok, limit)
		}, map[string]bool{"/api/items": false, "/api/nowhere": false}},
	} {
		e := echo.NewWithConfig(c.config)
		c.mount(e, sashecho5.Middleware(still.Limiter(core.PerMinute(100)), keyfuncs.Everyone))
		for target, counted := range c.want {
			w := still.Get(e, target)
			if got := w.Header().Get("X-RateLimit-Limit") != ""; got != counted || w.Code < 400 {
				t.Errorf("%s: GET %s: got %d, counted %v, want %v", c.name, target, w.Code, got, counted)
			}
		}
	}
}

// Pre runs before routing: the path is not matched, and may still be rewritten.
func TestPre(t *testing.T) {
	e := echo.New()
	e.Pre(middleware.Rewrite(map[string]string{"/old": "/health"}))
	e.Pre(sashecho5.Middleware(still.Limiter(core.PerMinute(1)), keyfuncs.Everyone, nethttp.SkipPaths("/health")))
	e.GET("/health", ok)
	e.GET("/", ok)
	for _, c := range []struct {
		target string
		want   int
	}{{"/", 200}, {"/old", 200}, {"/health", 200}, {"/", 429}} {
		if w := still.Get(e, c.target); w.Code != c.want {
			t.Errorf("%s: got %d, want %d", c.target, w.Code, c.want)
		}
	}
}

// TestMiddlewareBy: the key function reads the framework's context, and is not asked about what is skipped.
func TestMiddlewareBy(t *testing.T) {
	asked := 0
	limit := sashecho5.MiddlewareBy(still.Limiter(core.PerMinute(1)), func(c *echo.Context) (string, error) {
		asked++
		if c.Param("id") == "nobody" {
			return "", keyfuncs.ErrNoKey
		}
		return c.Param("id"), nil
	}, nethttp.SkipPaths("/users/skipped"))
	e := echo.New()
	e.GET("/users/:id", ok, limit)
	for _, c := range []struct {
		user   string
		status int
	}{{"a", 200}, {"a", 429}, {"b", 200}, {"nobody", 400}, {"skipped", 200}} {
		if w := still.Get(e, "/users/"+c.user); w.Code != c.status {
			t.Errorf("%s: got %d %s, want %d", c.user, w.Code, w.Body, c.status)
		}
	}
	if asked != 4 {
		t.Errorf("got %d calls of the key function, want 4", asked)
	}
}

// limited is a server with room for one request.
func limited(opts ...nethttp.Option) *echo.Echo {
	e := echo.New()
	e.Use(sashecho5.Middleware(still.Limiter(core.PerMinute(1)), keyfuncs.Everyone, opts...))
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error { c.Response().Header().Set("X-Later", "reached"); return next(c) }
	})
	e.GET("/", ok)
	return e
}

// echo's own skippers fit, and several of them add up.
func TestWithSkipper(t *testing.T) {
	var static middleware.Skipper = func(c *echo.Context) bool { return strings.HasPrefix(c.Path(), "/static/") }
	internal := func(c *echo.Context) bool { return c.QueryParam("internal") != "" }
	e := limited(sashecho5.WithSkipper(static), nethttp.SkipPaths("/health"), sashecho5.WithSkipper(internal),
		sashecho5.WithSkipper(middleware.DefaultSkipper))
	e.GET("/static/*", ok)
	e.GET("/health", ok)
	for range 2 {
		for _, target := range []string{"/static/a.css", "/health", "/?internal=1"} {
			if w := still.Get(e, target); w.Code != 200 || w.Header().Get("X-RateLimit-Limit") != "" ||
				w.Header().Get("X-Later") == "" {
				t.Errorf("%s: got %d %v, want 200 without limit fields", target, w.Code, w.Header())
			}
		}
	}
	if first, second := still.Get(e, "/"), still.Get(e, "/"); first.Code != 200 || second.Code != 429 {
		t.Errorf("got %d, then %d, want 200 and 429", first.Code, second.Code)
	}
}

// TestPanics: what is wrong in the arguments of this package's own panics as the program starts.
func TestPanics(t *testing.T) {
	l := still.Limiter(core.PerMinute(1))
	key := func(*echo.Context) (string, error) { return "k", nil }
	for name, f := range map[string]func(){
		"no key function": func() { sashecho5.MiddlewareBy(l, nil) },
		"no refusal":      func() { sashecho5.MiddlewareBy(l, key, sashecho5.WithRefusal(nil)) },
		"no skipper":      func() { sashecho5.MiddlewareBy(l, key, sashecho5.WithSkipper(nil)) },
	} {
		func() {
			defer func() {
				if p := recover(); p == nil || !strings.HasPrefix(fmt.Sprint(p), "sash: ") {
					t.Errorf("%s: got the panic %v, want one that begins with sash:", name, p)
				}
			}()
			f()
		}()
	}
}

// The handler has the ResponseWriter that stood before the guard.
func TestResponseWriterIsHandedOn(t *testing.T) {
	var before http.ResponseWriter
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error { before = c.Response(); return next(c) }
	}, sashecho5.Middleware(still.Limiter(core.PerMinute(1)), keyfuncs.Everyone))
	e.GET("/", func(c *echo.Context) error {
		if _, own := c.Response().(*echo.Response); c.Response() != before || !own {
			t.Errorf("got a %T, want the writer before the guard", c.Response())
		}
		return nil
	})
	still.Get(e, "/")
}
