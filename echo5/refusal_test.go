package sashecho5_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
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

// An interim response keeps neither echo's error handler nor its context from
// answering, with no 200.
func TestWithRefusalAfterEarlyHints(t *testing.T) {
	for _, c := range []struct {
		name   string
		refuse func(*echo.Context, core.Decision) error
		want   int
	}{
		{"an error", func(*echo.Context, core.Decision) error { return echo.ErrTooManyRequests }, 429},
		{"a panic", func(*echo.Context, core.Decision) error { panic("the user's own") }, 500},
		{"a string", func(ctx *echo.Context, d core.Decision) error { return ctx.String(nethttp.Status(d), "no") }, 429},
	} {
		e := echo.New()
		e.Logger = slog.New(slog.DiscardHandler)
		e.Use(middleware.Recover())
		e.Use(sashecho5.Middleware(still.Limiter(core.PerMinute(1)), keyfuncs.Everyone,
			sashecho5.WithRefusal(func(ctx *echo.Context, d core.Decision) error {
				ctx.Response().WriteHeader(http.StatusEarlyHints)
				return c.refuse(ctx, d)
			})))
		e.GET("/", ok)
		still.Get(e, "/")
		s := httptest.NewServer(e)
		res, err := s.Client().Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		s.Close()
		if res.StatusCode != c.want {
			t.Errorf("%s: got %d, want %d", c.name, res.StatusCode, c.want)
		}
	}
}

// A refusal is complete through the writers that other parts of echo put around its
// Response, and what stood before the refusal stands again after it.
func TestWithRefusalThroughWriters(t *testing.T) {
	native := func(c *echo.Context, d core.Decision) error { return c.String(nethttp.Status(d), "slow down") }
	for _, c := range []struct {
		name   string
		refuse func(*echo.Context, core.Decision) error
		status int
		body   string // "?" stands for the default refusal
	}{
		{"a string", native, 429, "slow down"},
		{"nothing", func(*echo.Context, core.Decision) error { return nil }, 429, "?"},
		{"a body alone", func(c *echo.Context, _ core.Decision) error {
			_, err := c.Response().Write([]byte("slow down"))
			return err
		}, 429, "slow down"},
		{"a writer of its own", func(c *echo.Context, d core.Decision) error {
			c.SetResponse(echo.NewResponse(c.Response(), c.Logger()))
			return c.String(nethttp.Status(d), "slow down")
		}, 429, "slow down"},
		{"what JSON cannot hold", func(c *echo.Context, d core.Decision) error {
			return c.JSON(nethttp.Status(d), make(chan int))
		}, 500, `{"message":"Internal Server Error"}`},
	} {
		var before, after http.ResponseWriter
		note := func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c *echo.Context) error {
				before = c.Response()
				err := next(c)
				after = c.Response()
				return err
			}
		}
		e := echo.New()
		e.Use(middleware.GzipWithConfig(middleware.GzipConfig{MinLength: 1000}), note,
			sashecho5.Middleware(still.Limiter(core.PerMinute(1)), keyfuncs.Everyone, sashecho5.WithRefusal(c.refuse)))
		e.GET("/", ok)
		still.Get(e, "/")
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", "gzip")
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		body := strings.TrimSpace(w.Body.String())
		if strings.HasPrefix(body, "{") && strings.HasSuffix(body, `"violated-policies":["1m0s"]}`) {
			body = "?"
		}
		if w.Code != c.status || body != c.body || w.Header().Get("X-RateLimit-Limit") != "1" || before != after {
			t.Errorf("%s: %d %v %s; writers %T, %T", c.name, w.Code, w.Header(), w.Body, before, after)
		}
	}
}

// A writer of the user's may hide echo's Response.
func TestWithRefusalInsideForeignWriter(t *testing.T) {
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			c.SetResponse(struct{ http.ResponseWriter }{c.Response()})
			return next(c)
		}
	}, sashecho5.Middleware(still.Limiter(core.PerMinute(1)), keyfuncs.Everyone,
		sashecho5.WithRefusal(func(*echo.Context, core.Decision) error { return nil })))
	e.GET("/", ok)
	if first, second := still.Get(e, "/"), still.Get(e, "/"); first.Code != 200 || second.Code != 429 {
		t.Errorf("got %d and %d, want 200 and 429", first.Code, second.Code)
	}
}

// A HEAD that echo serves by the handler of GET is counted once, and refused with
// the fields of a GET and no body.
func TestAutoHandleHEAD(t *testing.T) {
	slow := sashecho5.WithRefusal(func(c *echo.Context, d core.Decision) error {
		return c.String(nethttp.Status(d), "slow down")
	})
	for _, c := range []struct {
		name   string
		opts   []nethttp.Option
		length string
	}{{"the default", nil, ""}, {"WithRefusal", []nethttp.Option{slow}, "9"}} {
		router := echo.NewRouter(echo.RouterConfig{AutoHandleHEAD: true})
		e := echo.NewWithConfig(echo.Config{Router: router})
		e.GET("/", ok, sashecho5.Middleware(still.Limiter(core.PerMinute(2)), keyfuncs.Everyone, c.opts...))
		for i, want := range []struct {
			status int
			left   string
		}{{200, "1"}, {200, "0"}, {429, "0"}} {
			w := httptest.NewRecorder()
			e.ServeHTTP(w, httptest.NewRequest(http.MethodHead, "/", nil))
			h := w.Header()
			if w.Code != want.status || h.Get("X-RateLimit-Remaining") != want.left || w.Body.Len() > 0 ||
				want.status == 429 && (h.Get("Retry-After") != "60" || c.length != "" && h.Get("Content-Length") != c.length) {
				t.Errorf("%s: HEAD %d: %d %v %q", c.name, i+1, w.Code, h, w.Body)
			}
		}
	}
}
