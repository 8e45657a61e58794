package sashecho_test

import (
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/echo"
	"github.com/sashlimit/sash/internal/still"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// CountWhen is asked about a panic as about 500, wherever it is recovered.
func TestCountWhenPanics(t *testing.T) {
	quiet := middleware.RecoverWithConfig(middleware.RecoverConfig{DisablePrintStack: true})
	teapot := func(err error, c echo.Context) { _ = c.NoContent(418) }
	for _, c := range []struct {
		name   string
		setup  func(e *echo.Echo)
		inner  []echo.MiddlewareFunc
		status int // that the client gets
		asked  int
	}{
		{name: "recovered inside", inner: []echo.MiddlewareFunc{quiet}, status: 500, asked: 500},
		{name: "recovered inside, as a teapot", inner: []echo.MiddlewareFunc{quiet},
			setup: func(e *echo.Echo) { e.HTTPErrorHandler = teapot }, status: 418, asked: 418},
		{name: "recovered outside, as a teapot",
			setup: func(e *echo.Echo) { e.HTTPErrorHandler = teapot; e.Use(quiet) }, status: 418, asked: 500},
	} {
		var asked []int
		l := still.Limiter(core.PerMinute(1))
		limit := sashecho.Middleware(l, keyfuncs.Everyone, nethttp.CountWhen(func(_ *http.Request, status int) bool {
			asked = append(asked, status)
			return false
		}))
		e := echo.New()
		e.Logger.SetOutput(io.Discard)
		if c.setup != nil {
			c.setup(e)
		}
		panics := func(echo.Context) error { panic("handler") }
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
