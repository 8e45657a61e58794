package sashecho5_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/echo5"
	"github.com/sashlimit/sash/internal/still"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

var errWrong = errors.New("wrong password")

// quiet recovers, and writes no stack.
var quiet = middleware.RecoverWithConfig(middleware.RecoverConfig{DisablePrintStack: true})

// failures are handlers that fail.
var failures = map[string]echo.HandlerFunc{
	"an HTTPError":         func(*echo.Context) error { return echo.NewHTTPError(401, "wrong") },
	"a constant":           func(*echo.Context) error { return echo.ErrUnauthorized },
	"one inside another":   func(*echo.Context) error { return echo.NewHTTPError(500, "").Wrap(echo.ErrUnauthorized) },
	"one that is wrapped":  func(*echo.Context) error { return fmt.Errorf("log in: %w", echo.ErrUnauthorized) },
	"an error of its own":  func(*echo.Context) error { return fmt.Errorf("log in: %w", errWrong) },
	"the end of a context": func(*echo.Context) error { return fmt.Errorf("query: %w", context.DeadlineExceeded) },
	"403 and an error":     func(c *echo.Context) error { _ = c.String(403, "no"); return errWrong },
	"JSON that fails":      func(c *echo.Context) error { return c.JSON(200, func() {}) },
	"a panic inside":       quiet(func(*echo.Context) error { panic("handler") }),
	"404":                  func(c *echo.Context) error { return c.String(404, "none") },
}

// committed reports whether the response of c was sent.
func committed(c *echo.Context) bool {
	response, _ := echo.UnwrapResponse(c.Response())
	return response.Committed
}

// around are middlewares that stand outside or inside of a guard.
var around = map[string]echo.MiddlewareFunc{
	"nothing":        func(next echo.HandlerFunc) echo.HandlerFunc { return next },
	"ContextTimeout": middleware.ContextTimeout(time.Hour),
	"Gzip":           middleware.Gzip(),
	"Recover":        middleware.Recover(),
	"RequestLogger": middleware.RequestLoggerWithConfig(middleware.RequestLoggerConfig{HandleError: true,
		LogValuesFunc: func(*echo.Context, middleware.RequestLoggerValues) error { return nil }}),
	"BodyDump": middleware.BodyDump(func(*echo.Context, []byte, []byte, error) {}),
	"maps errors": func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			err := next(c)
			if errors.Is(err, errWrong) {
				return echo.NewHTTPError(401, "wrong")
			}
			return err
		}
	},
	"answers errors": func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			if err := next(c); err != nil && !committed(c) {
				return c.String(418, err.Error())
			}
			return nil
		}
	},
	"hooks": func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			response, _ := echo.UnwrapResponse(c.Response())
			response.Before(func() { response.Header().Add("X-Status", fmt.Sprint(response.Status)) })
			return next(c)
		}
	},
}

// errorHandlers are HTTPErrorHandlers of a server.
var errorHandlers = map[string]echo.HTTPErrorHandler{
	"echo's": echo.DefaultHTTPErrorHandler(false),
	"a user's": func(c *echo.Context, err error) {
		if errors.Is(err, errWrong) && !committed(c) {
			err = echo.NewHTTPError(401, "wrong")
		}
		echo.DefaultHTTPErrorHandler(false)(c, err)
	},
}

// outcome is what a client gets, and how often the error handler was called.
type outcome struct {
	status  int
	body    string
	header  http.Header
	handled int
}

// request makes a request for a server with an error handler, a handler and middlewares at some place.
func request(by, place string, handler echo.HandlerFunc, all ...echo.MiddlewareFunc) (got outcome) {
	e := echo.New()
	e.Logger = slog.New(slog.DiscardHandler)
	e.HTTPErrorHandler = func(c *echo.Context, err error) { got.handled++; errorHandlers[by](c, err) }
	switch place {
	case "Pre":
		e.Pre(all...)
		e.GET("/", handler)
	case "Use":
		e.Use(all...)
		e.GET("/", handler)
	case "the route":
		e.GET("/", handler, all...)
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	got.status, got.body, got.header = w.Code, w.Body.String(), w.Header()
	maps.DeleteFunc(got.header, func(name string, _ []string) bool { return strings.HasPrefix(name, "X-Ratelimit-") })
	return got
}

// TestErrorsAsWithoutGuard: an error of a handler is answered as without guards, once, whatever stands around them, and
// CountWhen and CostAfter are asked about the status that the client gets.
func TestErrorsAsWithoutGuard(t *testing.T) {
	for out, outside := range around {
		for in, inside := range around {
			for name, handler := range failures {
				what := fmt.Sprintf("%s, %s outside and %s inside", name, out, in)
				for by := range errorHandlers {
					expectSame(t, what, by, "Use", handler, outside, inside)
				}
				if in == "nothing" {
					expectSame(t, what, "a user's", "Pre", handler, outside, inside)
					expectSame(t, what, "a user's", "the route", handler, outside, inside)
				}
			}
		}
	}
}

// expectSame checks that two requests through guards between outside and inside have the outcome that one without
// guards has.
func expectSame(t *testing.T, what, by, place string, handler echo.HandlerFunc, outside, inside echo.MiddlewareFunc) {
	t.Helper()
	var asked []int
	one := still.Limiter(core.PerMinute(1))
	first := sashecho5.Middleware(one, keyfuncs.RemoteIP, nethttp.CountWhen(func(_ *http.Request, status int) bool {
		asked = append(asked, status)
		return false
	}))
	cost := func(_ *http.Request, status int, _ int64) int { asked = append(asked, status); return 0 }
	second := sashecho5.Middleware(one, keyfuncs.Everyone, nethttp.CostAfter(cost))
	want := request(by, place, handler, outside, inside)
	for range 2 { // the second passes a limit of 1
		asked = nil
		got := request(by, place, handler, outside, first, second, inside)
		if !reflect.DeepEqual(got, want) || !slices.Equal(asked, []int{want.status, want.status}) {
			t.Errorf("%s, in %s with %s error handler: got %+v, asked about %v, want %+v", what, place, by, got, asked, want)
		}
	}
}

// leaving is a client that leaves after a moment.
func leaving(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c *echo.Context) error {
		ctx, leave := context.WithCancel(c.Request().Context())
		time.AfterFunc(time.Millisecond, leave)
		c.SetRequest(c.Request().WithContext(ctx))
		return next(c)
	}
}

// TestUnanswered: a request whose error nobody answers, or whose client has left, stays counted, and CountWhen is not
// asked. It is asked if a context has ended and the error is answered.
func TestUnanswered(t *testing.T) {
	ended := context.Context.Err
	wrong := func(context.Context) error { return echo.ErrUnauthorized }
	swallow := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error { _ = leaving(next)(c); return nil }
	}
	hiding := func(next echo.HandlerFunc) echo.HandlerFunc {
		return leaving(func(c *echo.Context) error {
			c.SetResponse(struct{ http.ResponseWriter }{c.Response()})
			return next(c)
		})
	}
	for _, c := range []struct {
		name    string
		outside echo.MiddlewareFunc
		err     func(ctx context.Context) error
		asked   []int
	}{
		{"ContextTimeout", middleware.ContextTimeout(time.Millisecond), ended, []int{503}},
		{"ContextTimeout, and another error", middleware.ContextTimeout(time.Millisecond), wrong, []int{401}},
		{"the client leaves", leaving, ended, nil},
		{"the client leaves, and another error", leaving, wrong, []int{401}},
		{"a middleware that swallows errors", swallow, wrong, nil},
		{"a writer that hides echo's", hiding, wrong, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			var asked []int
			one := still.Limiter(core.PerMinute(1))
			guard := sashecho5.Middleware(one, keyfuncs.Everyone, nethttp.CountWhen(func(_ *http.Request, status int) bool {
				asked = append(asked, status)
				return false
			}))
			handler := func(e *echo.Context) error {
				ctx := e.Request().Context()
				<-ctx.Done()
				return c.err(ctx)
			}
			request("echo's", "Use", handler, c.outside, guard)
			synctest.Wait()
			next := request("echo's", "Use", ok, guard) // waits for what is under way, a second at most
			if !slices.Equal(asked[:min(len(asked), 1)], c.asked) || (next.status == 200) != (c.asked != nil) {
				t.Errorf("%s: asked about %v, and the next request got %d, want %v", c.name, asked, next.status, c.asked)
			}
		})
	}
}
