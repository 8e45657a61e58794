package sashecho_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/echo"
	"github.com/sashlimit/sash/keyfuncs"
)

func hello(c echo.Context) error { return c.String(http.StatusOK, "hello") }

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

// An earlier middleware names the client.
func ExampleMiddlewareBy() {
	api := core.Must(core.New(core.Config{Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerMinute(2)}}))
	byUser := func(c echo.Context) (string, error) {
		user, _ := c.Get("user").(string)
		if user == "" {
			return "", keyfuncs.ErrNoKey
		}
		return "user:" + user, nil
	}
	auth := func(next echo.HandlerFunc) echo.HandlerFunc { // stands for your authentication
		return func(c echo.Context) error { c.Set("user", c.QueryParam("as")); return next(c) }
	}

	e := echo.New()
	e.Use(auth, sashecho.MiddlewareBy(api, byUser))
	e.GET("/", hello)

	show(e, "GET", "/?as=alice")
	show(e, "GET", "/?as=alice")
	show(e, "GET", "/?as=bob")
	show(e, "GET", "/")
	// Output:
	// GET /?as=alice 200 with 1 of 2 left
	// GET /?as=alice 200 with 0 of 2 left
	// GET /?as=bob 200 with 1 of 2 left
	// GET / 400
}

// Echo's skippers, or any functions of that type: each of them is enough.
func ExampleWithSkipper() {
	api := core.Must(core.New(core.Config{Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerMinute(1)}}))
	static := func(c echo.Context) bool { return strings.HasPrefix(c.Path(), "/static/") }
	internal := func(c echo.Context) bool { return c.QueryParam("internal") != "" }

	e := echo.New()
	e.Use(sashecho.Middleware(api, keyfuncs.RemoteIP, sashecho.WithSkipper(static), sashecho.WithSkipper(internal)))
	e.GET("/static/*", hello)
	e.GET("/", hello)

	show(e, "GET", "/static/a.css")
	show(e, "GET", "/?internal=1")
	show(e, "GET", "/")
	// Output:
	// GET /static/a.css 200
	// GET /?internal=1 200
	// GET / 200 with 0 of 1 left
}
