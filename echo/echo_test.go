package sashecho_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/echo"
	"github.com/sashlimit/sash/internal/fakeclock"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
	"github.com/sashlimit/sash/nethttp/adaptertest"
)

func steps(steps []adaptertest.Step) (all []echo.MiddlewareFunc) {
	for _, s := range steps {
		if s.Spy == nil {
			all = append(all, sashecho.Middleware(s.Limiter, s.Key, s.Options...))
			continue
		}
		all = append(all, func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error { s.Spy(); return next(c) }
		})
	}
	return all
}

func build(t adaptertest.Tree) http.Handler {
	e := echo.New()
	e.Use(steps(t.Use)...)
	g := e.Group(t.Prefix, steps(t.Group)...)
	for _, r := range t.Routes {
		pattern := strings.NewReplacer("{", ":", "}", "").Replace(r.Pattern)
		handler := func(c echo.Context) error {
			r.Handler(c.Response(), c.Request())
			return r.Err
		}
		g.Add(r.Method, pattern, handler, steps(r.Steps)...)
	}
	return e
}

func TestBehaviour(t *testing.T) {
	adaptertest.Run(t, adaptertest.Adapter{
		Build: build,
		WithRefusal: func(refuse adaptertest.Refusal) nethttp.Option {
			return sashecho.WithRefusal(func(c echo.Context, d core.Decision) error {
				return refuse(c.Response(), c.Request(), d)
			})
		},
		ErrorStatus: http.StatusInternalServerError,

		RootLabel:  "/api/items/:id", // echo routes before Use
		GroupLabel: "/api/items/:id",
		RouteLabel: "/api/items/:id",
	})
}

func ok(c echo.Context) error { return c.String(200, "ok") }

// TestUnmatched: what a guard counts where no route matches. TestBehaviour has one in Use and one at a route.
func TestUnmatched(t *testing.T) {
	for _, c := range []struct {
		name  string
		mount func(e *echo.Echo, limit echo.MiddlewareFunc)
		want  map[string]bool // target: counted
	}{
		{"Pre", func(e *echo.Echo, limit echo.MiddlewareFunc) {
			e.Pre(limit)
			e.POST("/api/items", ok)
		}, map[string]bool{"/api/items": true, "/api/nowhere": true, "/": true}},
		{"group", func(e *echo.Echo, limit echo.MiddlewareFunc) {
			e.Group("/api", limit).POST("/items", ok)
		}, map[string]bool{"/api/items": true, "/api/nowhere": true, "/api": true, "/": false, "/apiary": false}},
	} {
		e := echo.New()
		c.mount(e, sashecho.Middleware(fakeclock.Limiter(core.PerMinute(100)), keyfuncs.AllClients))
		for target, counted := range c.want {
			w := fakeclock.Get(e, target)
			if got := w.Header().Get("X-RateLimit-Limit") != ""; got != counted || w.Code < 400 {
				t.Errorf("%s: GET %s: got %d, counted %v, want %v", c.name, target, w.Code, got, counted)
			}
		}
	}
}

var errWrong = errors.New("wrong password")

// quiet recovers, and writes no stack.
var quiet = middleware.RecoverWithConfig(middleware.RecoverConfig{DisablePrintStack: true})

// failures are handlers that fail.
var failures = map[string]echo.HandlerFunc{
	"an HTTPError":      func(echo.Context) error { return echo.NewHTTPError(401) },
	"one in another":    func(echo.Context) error { return echo.NewHTTPError(500).SetInternal(echo.ErrUnauthorized) },
	"a wrapped one":     func(echo.Context) error { return fmt.Errorf("log in: %w", echo.ErrUnauthorized) },
	"its own error":     func(echo.Context) error { return fmt.Errorf("log in: %w", errWrong) },
	"a context's end":   func(echo.Context) error { return fmt.Errorf("query: %w", context.DeadlineExceeded) },
	"403 and an error":  func(c echo.Context) error { _ = c.String(403, "no"); return errWrong },
	"c.Error":           func(c echo.Context) error { c.Error(echo.ErrUnauthorized); return nil },
	"c.Error, an error": func(c echo.Context) error { c.Error(echo.ErrUnauthorized); return errWrong },
	"JSON that fails":   func(c echo.Context) error { return c.JSON(200, func() {}) },
	"a panic inside":    quiet(func(echo.Context) error { panic("handler") }),
	"404":               func(c echo.Context) error { return c.String(404, "none") },
}

// around are middlewares that stand outside or inside of a guard.
var around = map[string]echo.MiddlewareFunc{
	"nothing":        func(next echo.HandlerFunc) echo.HandlerFunc { return next },
	"Timeout":        middleware.TimeoutWithConfig(middleware.TimeoutConfig{Timeout: time.Hour}),
	"ContextTimeout": middleware.ContextTimeout(time.Hour),
	"Gzip":           middleware.Gzip(),
	"Recover":        middleware.Recover(),
	"Logger":         middleware.LoggerWithConfig(middleware.LoggerConfig{Output: io.Discard}),
	"BodyDump":       middleware.BodyDump(func(echo.Context, []byte, []byte) {}),
	"answers errors": func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if err := next(c); err != nil && !c.Response().Committed {
				return c.String(418, err.Error())
			}
			return nil
		}
	},
	"hooks": func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			response := c.Response()
			response.Before(func() { response.Header().Add("X-Status", fmt.Sprint(response.Status)) })
			return next(c)
		}
	},
}

// request makes a request for a server with a handler and middlewares, whose error handler knows errWrong. outcome is
// all that the client gets but the limit, and how often the error handler was called.
func request(handler echo.HandlerFunc, all ...echo.MiddlewareFunc) (status int, outcome string) {
	handled := 0
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		handled++
		if errors.Is(err, errWrong) && !c.Response().Committed {
			err = echo.NewHTTPError(401, "wrong")
		}
		e.DefaultHTTPErrorHandler(err, c)
	}
	e.Use(all...)
	e.GET("/", handler)
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	maps.DeleteFunc(w.Header(), func(name string, _ []string) bool { return strings.HasPrefix(name, "X-Ratelimit-") })
	return w.Code, fmt.Sprint(w.Code, w.Header(), w.Body, ", handled: ", handled)
}

// TestErrorsAsWithoutGuard: an error of a handler is answered as without guards, once, whatever stands around them, and
// CountWhen and CostAfter are asked about the status that the client gets.
func TestErrorsAsWithoutGuard(t *testing.T) {
	for out, outside := range around {
		for in, inside := range around {
			for name, handler := range failures {
				if (out == "Timeout" || in == "Timeout") && (in == "BodyDump" || strings.HasSuffix(name, "an error")) {
					continue // echo's Timeout drops a response before an error: the client gets an empty 200
				}
				expectSame(t, fmt.Sprintf("%s, %s outside and %s inside", name, out, in), handler, outside, inside)
			}
		}
	}
}

// expectSame checks that two requests through guards between outside and inside have the outcome that one without
// guards has.
func expectSame(t *testing.T, what string, handler echo.HandlerFunc, outside, inside echo.MiddlewareFunc) {
	t.Helper()
	var asked []int
	one := fakeclock.Limiter(core.PerMinute(1))
	first := sashecho.Middleware(one, keyfuncs.RemoteIP, nethttp.CountWhen(func(_ *http.Request, status int) bool {
		asked = append(asked, status)
		return false
	}))
	cost := func(_ *http.Request, status int, _ int64) int { asked = append(asked, status); return 0 }
	second := sashecho.Middleware(one, keyfuncs.AllClients, nethttp.CostAfter(cost))
	status, want := request(handler, outside, inside)
	for range 2 { // the second passes a limit of 1
		asked = nil
		_, got := request(handler, outside, first, second, inside)
		if got != want || !slices.Equal(asked, []int{status, status}) {
			t.Errorf("%s: got %q, asked about %v, want %q", what, got, asked, want)
		}
	}
}
