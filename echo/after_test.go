package sashecho_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/echo"
	"github.com/sashlimit/sash/internal/still"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// CountWhen is asked about the status that the client gets, whatever makes it of an error.
func TestCountWhenErrors(t *testing.T) {
	quiet := middleware.RecoverWithConfig(middleware.RecoverConfig{DisablePrintStack: true})
	plain := errors.New("plain")
	teapot := func(err error, c echo.Context) {
		if !c.Response().Committed {
			_ = c.NoContent(418)
		}
	}
	for _, c := range []struct {
		name    string
		handler echo.HandlerFunc
		setup   func(e *echo.Echo)
		inner   []echo.MiddlewareFunc
		status  int // that the client gets
		asked   int // if it is another
	}{
		{name: "HTTPError", handler: func(echo.Context) error { return echo.ErrUnauthorized }, status: 401},
		{name: "an error inside", handler: func(echo.Context) error {
			return echo.NewHTTPError(500).SetInternal(echo.ErrUnauthorized)
		}, status: 401},
		{name: "c.Error", handler: func(c echo.Context) error {
			c.Error(echo.ErrUnauthorized)
			return nil
		}, status: 401},
		{name: "sent before the error", handler: func(c echo.Context) error {
			_ = c.String(403, "no")
			return plain
		}, status: 403},
		{name: "an error handler that sends nothing", handler: func(echo.Context) error { return plain },
			setup: func(e *echo.Echo) { e.HTTPErrorHandler = func(error, echo.Context) {} }, status: 200},
		{name: "gzip", handler: func(echo.Context) error { return echo.ErrUnauthorized },
			inner: []echo.MiddlewareFunc{middleware.Gzip()}, status: 401},
		{name: "recovered inside", handler: func(echo.Context) error { panic("handler") },
			inner: []echo.MiddlewareFunc{quiet}, status: 500},
		{name: "recovered outside, as a teapot", handler: func(echo.Context) error { panic("handler") },
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
		e.GET("/", c.handler, append([]echo.MiddlewareFunc{limit}, c.inner...)...)
		if c.asked == 0 {
			c.asked = c.status
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", "gzip")
		for range 2 { // the second passes a limit of 1
			w := httptest.NewRecorder()
			e.ServeHTTP(w, r)
			if w.Code != c.status || !slices.Equal(asked, []int{c.asked}) ||
				strings.Count(w.Body.String(), "message") > 1 {
				t.Errorf("%s: the client got %d %q, CountWhen was asked about %v; want %d and %d",
					c.name, w.Code, w.Body, asked, c.status, c.asked)
			}
			asked = nil
		}
	}
}
