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
	"github.com/sashlimit/sash/nethttp/adapter"
)

func hello(c *echo.Context) error { return c.String(http.StatusOK, "hello") }

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

	for _, path := range []string{"/?as=alice", "/?as=alice", "/?as=bob", "/static/a.css", "/"} {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Printf("%s %d %q\n", path, w.Code, w.Header().Get("X-RateLimit-Remaining"))
	}
	// Output:
	// /?as=alice 200 "1"
	// /?as=alice 200 "0"
	// /?as=bob 200 "1"
	// /static/a.css 200 ""
	// / 400 ""
}
