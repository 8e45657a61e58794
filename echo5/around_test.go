package sashecho5_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/echo5"
	"github.com/sashlimit/sash/internal/still"
	"github.com/sashlimit/sash/nethttp"
)

// WrapMiddleware puts middleware of net/http into the chain, with a Response of its
// own: the response has the fields of the limit inside it.
func TestAroundWrapMiddleware(t *testing.T) {
	e := echo.New()
	e.Use(sashecho5.Middleware(still.Limiter(core.PerMinute(9)), everybody))
	e.Use(echo.WrapMiddleware(nethttp.Middleware(still.Limiter(core.PerMinute(5)), everybody)))
	e.Use(sashecho5.Middleware(still.Limiter(core.PerMinute(1)), everybody))
	e.GET("/", ok)
	for _, want := range []int{200, 429} {
		w := get(e, "/")
		h := w.Header()
		if w.Code != want || h.Get("X-RateLimit-Limit") != "1" {
			t.Errorf("got %d %v; want %d and the inner limit's fields", w.Code, h, want)
		}
	}
}

// echo's CORS middleware outside the limit: preflights are not counted, and a
// script can read the refusal.
func TestCORS(t *testing.T) {
	e := echo.New()
	e.Use(middleware.CORSWithConfig(middleware.CORSConfig{
		AllowOrigins: []string{"https://app.example"}, ExposeHeaders: []string{"Retry-After"},
	}))
	e.Use(sashecho5.Middleware(still.Limiter(core.PerMinute(1)), everybody))
	e.GET("/", ok)
	for _, c := range []struct {
		method string
		want   int
	}{{"OPTIONS", 204}, {"OPTIONS", 204}, {"GET", 200}, {"GET", 429}} {
		r := httptest.NewRequest(c.method, "/", nil)
		r.Header.Set("Origin", "https://app.example")
		r.Header.Set("Access-Control-Request-Method", "GET")
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		if w.Code != c.want || w.Header().Get("Access-Control-Allow-Origin") != "https://app.example" {
			t.Errorf("%s: %d %v, want %d", c.method, w.Code, w.Header(), c.want)
		}
	}
}

// The handler has the ResponseWriter that stood before the guard.
func TestResponseWriterIsHandedOn(t *testing.T) {
	var before http.ResponseWriter
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error { before = c.Response(); return next(c) }
	}, sashecho5.Middleware(still.Limiter(core.PerMinute(1)), everybody))
	e.GET("/", func(c *echo.Context) error {
		if _, own := c.Response().(*echo.Response); c.Response() != before || !own {
			t.Errorf("the handler got a %T", c.Response())
		}
		return nil
	})
	get(e, "/")
}
