package sashecho5_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/echo5"
	"github.com/sashlimit/sash/internal/still"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// CountWhen is asked about a panic as about 500, wherever it is recovered.
func TestCountWhenPanics(t *testing.T) {
	teapot := func(c *echo.Context, _ error) { _ = c.NoContent(418) }
	for _, c := range []struct {
		name           string
		errorHandler   echo.HTTPErrorHandler
		outside, inner []echo.MiddlewareFunc
		status         int // that the client gets
		asked          int
	}{
		{name: "recovered inside", inner: []echo.MiddlewareFunc{middleware.Recover()}, status: 500, asked: 500},
		{name: "recovered inside, as a teapot", errorHandler: teapot,
			inner: []echo.MiddlewareFunc{middleware.Recover()}, status: 418, asked: 418},
		{name: "recovered outside, as a teapot", errorHandler: teapot,
			outside: []echo.MiddlewareFunc{middleware.Recover()}, status: 418, asked: 500},
	} {
		var asked []int
		limit := sashecho5.Middleware(still.Limiter(core.PerMinute(1)), keyfuncs.Everyone,
			nethttp.CountWhen(func(_ *http.Request, status int) bool {
				asked = append(asked, status)
				return false
			}))
		e := echo.New()
		if c.errorHandler != nil {
			e.HTTPErrorHandler = c.errorHandler
		}
		e.Use(c.outside...)
		panics := func(*echo.Context) error { panic("handler") }
		e.GET("/", panics, append([]echo.MiddlewareFunc{limit}, c.inner...)...)
		for range 2 { // the second passes a limit of 1
			if w := still.Get(e, "/"); w.Code != c.status || !slices.Equal(asked, []int{c.asked}) {
				t.Errorf("%s: the client got %d %q, CountWhen was asked about %v; want %d and %d",
					c.name, w.Code, w.Body, asked, c.status, c.asked)
			}
			asked = nil
		}
	}
}
