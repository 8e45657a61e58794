package sashecho5_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/echo5"
	"github.com/sashlimit/sash/internal/still"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// CountWhen is asked about the status that the client gets, whatever makes it of an error.
func TestCountWhenErrors(t *testing.T) {
	plain := errors.New("plain")
	teapot := func(c *echo.Context, err error) {
		if r, _ := echo.UnwrapResponse(c.Response()); r == nil || !r.Committed {
			_ = c.NoContent(418)
		}
	}
	for _, c := range []struct {
		name           string
		handler        echo.HandlerFunc
		errorHandler   echo.HTTPErrorHandler
		outside, inner []echo.MiddlewareFunc
		status         int
	}{
		{name: "HTTPError", handler: func(*echo.Context) error { return echo.ErrUnauthorized }, status: 401},
		{name: "sent before the error", handler: func(c *echo.Context) error {
			_ = c.String(403, "no")
			return plain
		}, status: 403},
		{name: "an error handler", handler: func(*echo.Context) error { return plain },
			errorHandler: teapot, status: 418},
		{name: "gzip inside", handler: func(*echo.Context) error { return echo.ErrUnauthorized },
			inner: []echo.MiddlewareFunc{middleware.Gzip()}, status: 401},
		{name: "recovered inside", handler: func(*echo.Context) error { panic("handler") },
			inner: []echo.MiddlewareFunc{middleware.Recover()}, status: 500},
		{name: "recovered outside", handler: func(*echo.Context) error { panic("handler") },
			outside: []echo.MiddlewareFunc{middleware.Recover()}, status: 500},
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
		e.GET("/", c.handler, append([]echo.MiddlewareFunc{limit}, c.inner...)...)
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", "gzip")
		for range 2 { // the second passes a limit of 1
			w := httptest.NewRecorder()
			e.ServeHTTP(w, r)
			if w.Code != c.status || !slices.Equal(asked, []int{c.status}) ||
				strings.Count(w.Body.String(), "message") > 1 {
				t.Errorf("%s: the client got %d %q, CountWhen was asked about %v; want %d",
					c.name, w.Code, w.Body, asked, c.status)
			}
			asked = nil
		}
	}
}
