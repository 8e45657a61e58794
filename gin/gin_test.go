package sashgin_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
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
			e.HandleMethodNotAllowed = true // for /api/items
			e.Use(limit)
			e.POST("/api/items", ok)
			e.GET("/api/list", ok)
		}, map[string]bool{"/api/items": true, "/api/nowhere": true, "/": true, "/api/list/": false}},
		{"Use after the routes", func(e *gin.Engine, limit gin.HandlerFunc) {
			e.GET("/api/list", ok)
			e.Use(limit)
		}, map[string]bool{"/api/list": false, "/api/nowhere": true}},
		{"group", func(e *gin.Engine, limit gin.HandlerFunc) {
			e.Group("/api", limit).POST("/items", ok)
		}, map[string]bool{"/api/items": false, "/api/nowhere": false, "/api": false, "/": false}},
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

// CountWhen is asked about the status that the client gets, although gin sends it when all
// handlers have returned.
func TestCountWhenStatus(t *testing.T) {
	recovery, panics := gin.RecoveryWithWriter(io.Discard), func(*gin.Context) { panic("handler") }
	for _, c := range []struct {
		name    string
		outer   []gin.HandlerFunc
		handler []gin.HandlerFunc
		status  int
	}{
		{"Status", nil, []gin.HandlerFunc{func(c *gin.Context) { c.Status(401) }}, 401},
		{"AbortWithError", nil, []gin.HandlerFunc{func(c *gin.Context) {
			_ = c.AbortWithError(401, errors.New("wrong"))
		}, ok}, 401},
		{"an error alone", nil, []gin.HandlerFunc{func(c *gin.Context) { _ = c.Error(errors.New("wrong")) }}, 200},
		{"a middleware that answers errors", nil, []gin.HandlerFunc{
			func(c *gin.Context) {
				c.Next()
				if len(c.Errors) > 0 {
					c.JSON(401, gin.H{})
				}
			},
			func(c *gin.Context) { _ = c.Error(errors.New("wrong")) },
		}, 401},
		{"a status that changes", nil, []gin.HandlerFunc{func(c *gin.Context) { c.Status(401); c.Status(201) }}, 201},
		{"recovered outside", []gin.HandlerFunc{recovery}, []gin.HandlerFunc{panics}, 500},
		{"recovered inside", nil, []gin.HandlerFunc{recovery, panics}, 500},
	} {
		var asked []int
		e := gin.New()
		e.Use(c.outer...)
		e.Use(sashgin.Middleware(fakeclock.Limiter(core.PerMinute(1)), keyfuncs.AllClients,
			nethttp.CountWhen(func(_ *http.Request, status int) bool {
				asked = append(asked, status)
				return false
			})))
		e.GET("/", c.handler...)
		for range 2 { // the second passes a limit of 1
			w := fakeclock.Get(e, "/")
			if w.Code != c.status || !slices.Equal(asked, []int{c.status}) {
				t.Errorf("%s: got %d for the client and %v for CountWhen, want %d", c.name, w.Code, asked, c.status)
			}
			asked = nil
		}
	}
}

// A status that is set and not sent says nothing about a request whose client has left
// when its handler panics: it stays counted.
func TestPanicOfClientThatLeft(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	none := nethttp.CountWhen(func(*http.Request, int) bool { return false })
	e := gin.New()
	e.Use(gin.RecoveryWithWriter(io.Discard),
		sashgin.Middleware(fakeclock.Limiter(core.PerMinute(1)), keyfuncs.AllClients, none))
	e.GET("/", func(c *gin.Context) { c.Status(401); leave(); panic(http.ErrAbortHandler) })
	e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ctx))
	if w := fakeclock.Get(e, "/"); w.Code != 429 {
		t.Errorf("the next request: got %d, want 429", w.Code)
	}
}
