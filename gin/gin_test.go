package sashgin_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/gin"
	"github.com/sashlimit/sash/internal/still"
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

func everybody(*http.Request) (string, error) { return "user:everybody", nil }

func get(h http.Handler, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w
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
		c.mount(e, sashgin.Middleware(still.Limiter(core.PerMinute(100)), everybody))
		for target, counted := range c.want {
			w := get(e, target)
			if got := w.Header().Get("X-RateLimit-Limit") != ""; got != counted {
				t.Errorf("%s: GET %s: %d, counted %v, want %v", c.name, target, w.Code, got, counted)
			}
		}
	}
}

// Where no route matches, gin would send a 404 of its own if a refusal wrote
// nothing.
func TestRefusedWithoutRoute(t *testing.T) {
	e := gin.New()
	e.Use(sashgin.Middleware(still.Limiter(core.PerMinute(1)), everybody))
	if first, second := get(e, "/"), get(e, "/"); first.Code != 404 || second.Code != 429 ||
		!strings.Contains(second.Body.String(), "rate_limit_exceeded") {
		t.Errorf("%d, then %d %s", first.Code, second.Code, second.Body)
	}
}

func TestMiddlewareBy(t *testing.T) {
	var asked []string
	l := still.Limiter(core.PerMinute(1))
	limit := sashgin.MiddlewareBy(l, func(c *gin.Context) (string, error) {
		key := c.GetString("user")
		asked = append(asked, key)
		switch key {
		case "nobody":
			return "", fmt.Errorf("no session: %w", keyfuncs.ErrNoKey)
		case "empty":
			return "", nil
		case "broken":
			return "", errors.New("secret")
		}
		return "user:" + key, nil
	}, nethttp.SkipPaths("/users/skipped"))
	e := gin.New()
	e.GET("/users/:id", func(c *gin.Context) { c.Set("user", c.Param("id")) }, limit, ok)
	for _, c := range []struct {
		user   string
		status int
	}{
		{"a", 200}, {"a", 429}, {"b", 200}, {"nobody", 400}, {"empty", 400}, {"broken", 500},
		{"skipped", 200}, {"skipped", 200},
	} {
		if w := get(e, "/users/"+c.user); w.Code != c.status || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s: %d %s, want %d", c.user, w.Code, w.Body, c.status)
		}
	}
	if len(asked) != 6 {
		t.Errorf("the key function was asked for %q", asked)
	}
}

func TestWithRefusal(t *testing.T) {
	engine := func(refuse func(*gin.Context, core.Decision)) http.Handler {
		e := gin.New()
		unused := nethttp.WithRefusal(func(http.ResponseWriter, *http.Request, core.Decision) {
			t.Error("the other refusal wrote")
		})
		e.Use(sashgin.Middleware(still.Limiter(core.PerMinute(1)), everybody, sashgin.WithRefusal(refuse), unused,
			nethttp.SkipPaths("/health")))
		e.Use(func(c *gin.Context) { c.Header("X-Later", "reached") })
		e.GET("/", ok)
		return e
	}
	var seen core.Decision
	h := engine(func(c *gin.Context, d core.Decision) {
		seen = d
		c.JSON(nethttp.Status(d), gin.H{"code": "slow_down"})
	})
	get(h, "/")
	w := get(h, "/")
	if w.Code != 429 || w.Body.String() != `{"code":"slow_down"}` || w.Header().Get("Retry-After") != "60" ||
		w.Header().Get("X-RateLimit-Limit") != "1" || w.Header().Get("X-Later") != "" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if seen.Allowed || seen.Limit.Requests != 1 {
		t.Errorf("%+v", seen)
	}
	h = engine(func(*gin.Context, core.Decision) {}) // forgets to answer
	for target, want := range map[string]int{"/": 429, "/nowhere": 429} {
		get(h, "/")
		if w := get(h, target); w.Code != want || w.Body.Len() != 0 {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
}

// The handler has the engine's own writer, and whatever else a middleware has
// put in its place.
func TestResponseWriterIsHandedOn(t *testing.T) {
	var before gin.ResponseWriter
	e := gin.New()
	e.Use(func(c *gin.Context) { before = c.Writer },
		sashgin.Middleware(still.Limiter(core.PerMinute(1)), everybody))
	e.GET("/", func(c *gin.Context) {
		if c.Writer != before {
			t.Errorf("the handler got a %T", c.Writer)
		}
	})
	get(e, "/")
}

func TestPanics(t *testing.T) {
	l := still.Limiter(core.PerMinute(1))
	key := func(*gin.Context) (string, error) { return "k", nil }
	for name, f := range map[string]func(){
		"no limiter":      func() { sashgin.MiddlewareBy(nil, key) },
		"no key function": func() { sashgin.MiddlewareBy(l, nil) },
		"no refusal":      func() { sashgin.MiddlewareBy(l, key, sashgin.WithRefusal(nil)) },
		"the option in net/http": func() {
			nethttp.Middleware(l, everybody, sashgin.WithRefusal(func(*gin.Context, core.Decision) {}))
		},
		"nil for Middleware's key": func() { sashgin.Middleware(l, nil) },
	} {
		func() {
			defer func() {
				if p := recover(); p == nil || !strings.HasPrefix(fmt.Sprint(p), "sash: ") {
					t.Errorf("%s: panic %v", name, p)
				}
			}()
			f()
		}()
	}
}
