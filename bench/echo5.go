package bench

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/sashlimit/sash/core"
	sashecho5 "github.com/sashlimit/sash/echo5"
	"github.com/sashlimit/sash/keyfuncs"
)

// echo5Libraries returns the middleware of echo v5 that is compared. echo's own
// RateLimiter takes the client's address from the socket by default.
func echo5Libraries() []library {
	sash := sashLibraries(func(limiter *core.Limiter, next http.Handler) http.Handler {
		return serveEcho5(sashecho5.Middleware(limiter, keyfuncs.RemoteIP), next)
	})
	return append(sash, library{
		"echo v5 RateLimiter", false, func(l load, next http.Handler) (http.Handler, error) {
			store := middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{
				Rate: l.perSecond(), Burst: l.requests, ExpiresIn: time.Hour,
			})
			return serveEcho5(middleware.RateLimiter(store), next), nil
		},
	})
}

// serveEcho5 returns an echo v5 with a middleware before a handler.
func serveEcho5(limit echo.MiddlewareFunc, next http.Handler) http.Handler {
	e := echo.New()
	e.Use(limit)
	e.GET("/", func(c *echo.Context) error {
		next.ServeHTTP(c.Response(), c.Request())
		return nil
	})
	return e
}
