package sashgin_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/gin"
	"github.com/sashlimit/sash/internal/fakeclock"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
	"github.com/sashlimit/sash/nethttp/adaptertest"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	gin.DefaultErrorWriter = io.Discard
	os.Exit(m.Run())
}

func steps(steps []adaptertest.Step) (all []gin.HandlerFunc) {
	for _, s := range steps {
		if s.Spy == nil {
			all = append(all, sashgin.Middleware(s.Limiter, s.Key, s.Options...))
		} else {
			all = append(all, func(*gin.Context) { s.Spy() })
		}
	}
	return all
}

func build(t adaptertest.Tree) http.Handler {
	e := gin.New()
	e.Use(steps(t.Use)...)
	g := e.Group(t.Prefix)
	g.Use(steps(t.Group)...)
	for _, r := range t.Routes {
		pattern := strings.NewReplacer("{", ":", "}", "").Replace(r.Pattern)
		g.Handle(r.Method, pattern, append(steps(r.Steps), gin.WrapF(r.Handler))...)
	}
	return e
}

func TestBehaviour(t *testing.T) {
	adaptertest.Run(t, adaptertest.Adapter{
		Build: build,
		WithRefusal: func(refuse adaptertest.Refusal) nethttp.Option {
			return sashgin.WithRefusal(func(c *gin.Context, d core.Decision) {
				_ = refuse(c.Writer, c.Request, d)
			})
		},
		RootLabel:  "/api/items/:id", // gin routes before any middleware runs
		GroupLabel: "/api/items/:id",
		RouteLabel: "/api/items/:id",
	})
}

func ok(c *gin.Context) { c.String(200, "ok") }

// What a guard counts where no route matches.
func TestUnmatched(t *testing.T) {
	for _, c := range []struct {
		name  string
		mount func(e *gin.Engine, limit gin.HandlerFunc)
		want  map[string]bool // target: counted
	}{
		{"Use", func(e *gin.Engine, limit gin.HandlerFunc) {
			e.Use(limit)
			e.POST("/api/items", ok)
			e.GET("/api/list", ok)
		}, map[string]bool{"/api/items": true, "/api/nowhere": true, "/": true, "/api/list/": false}},
		{"Use after the routes", func(e *gin.Engine, limit gin.HandlerFunc) {
			e.GET("/api/list", ok)
			e.Use(limit)
		}, map[string]bool{"/api/list": false, "/api/nowhere": true}},
		{"Use with 405", func(e *gin.Engine, limit gin.HandlerFunc) {
			e.HandleMethodNotAllowed = true
			e.Use(limit)
			e.POST("/api/items", ok)
		}, map[string]bool{"/api/items": true}},
		{"group", func(e *gin.Engine, limit gin.HandlerFunc) {
			e.Group("/api", limit).POST("/items", ok)
		}, map[string]bool{"/api/items": false, "/api/nowhere": false, "/api": false, "/": false}},
		{"NoRoute", func(e *gin.Engine, limit gin.HandlerFunc) {
			e.NoRoute(limit)
		}, map[string]bool{"/": true}},
	} {
		e := gin.New()
		c.mount(e, sashgin.Middleware(fakeclock.Limiter(core.PerMinute(100)), keyfuncs.AllClients))
		for target, counted := range c.want {
			w := fakeclock.Get(e, target)
			if got := w.Header().Get("X-RateLimit-Limit") != ""; got != counted {
				t.Errorf("%s: GET %s: got %d, counted %v, want %v", c.name, target, w.Code, got, counted)
			}
		}
	}
}

// Where no route matches, gin would send a 404 of its own if a refusal wrote
// nothing.
func TestRefusedWithoutRoute(t *testing.T) {
	e := gin.New()
	e.Use(sashgin.Middleware(fakeclock.Limiter(core.PerMinute(1)), keyfuncs.AllClients))
	if first, second := fakeclock.Get(e, "/"), fakeclock.Get(e, "/"); first.Code != 404 || second.Code != 429 ||
		!strings.Contains(second.Body.String(), "rate_limit_exceeded") {
		t.Errorf("got %d, then %d %s, want 404 and a refusal", first.Code, second.Code, second.Body)
	}
}

// TestHandleContext: a request that a handler sends through the engine again is counted twice by the engine's guard,
// and once if the guard skips it as docs/frameworks.md says.
func TestHandleContext(t *testing.T) {
	type sentOn struct{}
	skip := nethttp.Skip(func(r *http.Request) bool { return r.Context().Value(sentOn{}) != nil })
	for want, opts := range map[string][]nethttp.Option{"98": nil, "99": {skip}} {
		e := gin.New()
		e.Use(sashgin.Middleware(fakeclock.Limiter(core.PerMinute(100)), keyfuncs.AllClients, opts...))
		e.GET("/new", ok)
		e.GET("/old", func(c *gin.Context) {
			c.Request = c.Request.WithContext(context.WithValue(c.Request.Context(), sentOn{}, true))
			c.Request.URL.Path = "/new"
			e.HandleContext(c)
		})
		if w := fakeclock.Get(e, "/old"); w.Code != 200 || w.Header().Get("X-RateLimit-Remaining") != want {
			t.Errorf("got %d and %s left, want 200 and %s", w.Code, w.Header().Get("X-RateLimit-Remaining"), want)
		}
	}
}
