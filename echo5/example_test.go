package sashecho5_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/labstack/echo/v5"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/echo5"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
	"github.com/sashlimit/sash/nethttp/adapter"
)

func hello(c *echo.Context) error { return c.String(http.StatusOK, "hello") }

func show(h http.Handler, paths ...string) {
	for _, path := range paths {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Printf("%s %d %q\n", path, w.Code, w.Header().Get("X-RateLimit-Remaining"))
	}
}

func ExampleLimitByIP() {
	e := echo.New()
	e.Use(sashecho5.LimitByIP(core.PerHour(1)))
	e.GET("/", hello)
	show(e, "/", "/")
	// Output:
	// / 200 "0"
	// / 429 "0"
}

func ExampleMiddleware() {
	api := core.Must(core.New(core.Config{Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerHour(100)}}))
	search := core.Must(api.Rule("search", core.PerHour(10))) // has a count of its own

	e := echo.New()
	e.Use(sashecho5.Middleware(api, keyfuncs.RemoteIP, nethttp.SkipPaths("/health")))
	e.GET("/items/:id", hello)
	e.GET("/search", hello, sashecho5.Middleware(search, keyfuncs.RemoteIP))
	e.GET("/health", hello)
	show(e, "/items/1", "/items/2", "/search", "/health")
	// Output:
	// /items/1 200 "99"
	// /items/2 200 "98"
	// /search 200 "9"
	// /health 200 ""
}

func ExampleWithRefusal() {
	api := core.Must(core.New(core.Config{Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerHour(1)}}))
	refuse := sashecho5.WithRefusal(func(c *echo.Context, d core.Decision) error {
		return c.String(nethttp.Status(d), "slow down")
	})
	e := echo.New()
	e.Use(sashecho5.Middleware(api, keyfuncs.RemoteIP, refuse))
	e.GET("/", hello)
	for range 2 {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 200 hello
	// 429 slow down
}

// An earlier middleware names the client, and a function of its context says what is not limited.
func ExampleMiddlewareBy() {
	api := core.Must(core.New(core.Config{Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerMinute(2)}}))
	byUser := func(c *echo.Context) (string, error) {
		user, _ := c.Get("user").(string)
		if user == "" {
			return "", keyfuncs.ErrNoKey
		}
		return "user:" + user, nil
	}
	auth := func(next echo.HandlerFunc) echo.HandlerFunc { // stands for your authentication
		return func(c *echo.Context) error { c.Set("user", c.QueryParam("as")); return next(c) }
	}

	static := func(c *echo.Context) bool { return strings.HasPrefix(c.Path(), "/static/") }

	e := echo.New()
	e.Use(auth, sashecho5.MiddlewareBy(api, byUser, adapter.Skip(static)))
	e.GET("/", hello)
	e.GET("/static/*", hello)

	show(e, "/?as=alice", "/?as=alice", "/?as=bob", "/static/a.css", "/")
	// Output:
	// /?as=alice 200 "1"
	// /?as=alice 200 "0"
	// /?as=bob 200 "1"
	// /static/a.css 200 ""
	// / 400 ""
}
