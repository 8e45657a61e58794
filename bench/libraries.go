package bench

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/didip/tollbooth/v7"
	"github.com/go-chi/httprate"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	golimiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	throttledmem "github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululehttp "github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	ululemem "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	sashecho "github.com/sashlimit/sash/echo"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// load is the limit that all libraries enforce. Fixed windows, token buckets and
// sliding windows get the same numbers, which mean a different rule for each.
type load struct {
	requests int // an hour, all of which may come at once

	// log is the limit that a sliding log enforces instead, if it is set. A log
	// remembers each request of its window, and the requests of an hour of a
	// benchmark do not fit.
	log core.Limit

	// room is the bound of memstore in bytes; 0 means memstore's default.
	room int64
}

const unlimited = 1 << 30 // requests an hour that no contestant gets through

// perSecond returns the requests a second.
func (l load) perSecond() float64 { return float64(l.requests) / time.Hour.Seconds() }

// limit returns the limit of a sash contestant with algorithm a.
func (l load) limit(a core.Algorithm) core.Limit {
	if a == core.SlidingLog && l.log != (core.Limit{}) {
		return l.log
	}
	return core.PerHour(int64(l.requests)).Using(a)
}

// inMemory returns a limiter of sash with a store of its own.
func (l load) inMemory(a core.Algorithm) (*core.Limiter, error) {
	store := memstore.New()
	if l.room > 0 {
		store = memstore.New(memstore.WithMaxBytes(l.room))
	}
	return core.New(core.Config{
		Name:         "bench",
		Store:        store,
		Limits:       []core.Limit{l.limit(a)},
		OnStoreError: core.FailClosed,
	})
}

// library is a middleware of net/http or echo. It limits requests by the address of
// the client's socket and writes its default headers.
type library struct {
	name string
	sash bool
	wrap func(load, http.Handler) (http.Handler, error)
}

// libraries returns the middleware of net/http that is compared.
func libraries() []library {
	return []library{
		{"sash counter", true, sashHTTP(core.SlidingCounter)},
		{"sash log", true, sashHTTP(core.SlidingLog)},
		{"httprate", false, func(l load, next http.Handler) (http.Handler, error) {
			return httprate.LimitBy(l.requests, time.Hour, func(r *http.Request) (string, error) {
				ip, _, err := net.SplitHostPort(r.RemoteAddr)
				return httprate.CanonicalizeIP(ip), err
			})(next), nil
		}},
		{"ulule", false, func(l load, next http.Handler) (http.Handler, error) {
			limiter := ulule.New(ululemem.NewStore(), ulule.Rate{Period: time.Hour, Limit: int64(l.requests)})
			return ululehttp.NewMiddleware(limiter).Handler(next), nil
		}},
		{"throttled", false, func(l load, next http.Handler) (http.Handler, error) {
			store, err := throttledmem.NewCtx(0)
			if err != nil {
				return nil, err
			}
			limiter, err := throttled.NewGCRARateLimiterCtx(store, l.gcra())
			if err != nil {
				return nil, err
			}
			guard := throttled.HTTPRateLimiterCtx{RateLimiter: limiter, VaryBy: &throttled.VaryBy{RemoteAddr: true}}
			return guard.RateLimit(next), nil
		}},
		{"go-limiter", false, func(l load, next http.Handler) (http.Handler, error) {
			store, err := newGoLimiter(l)
			if err != nil {
				return nil, err
			}
			guard, err := httplimit.NewMiddleware(store, httplimit.IPKeyFunc())
			if err != nil {
				return nil, err
			}
			return guard.Handle(next), nil
		}},
		{"tollbooth", false, func(l load, next http.Handler) (http.Handler, error) {
			limiter := tollbooth.NewLimiter(l.perSecond(), nil)
			limiter.SetBurst(l.requests).SetIPLookups([]string{"RemoteAddr"}).SetIgnoreURL(true)
			return tollbooth.LimitHandler(limiter, next), nil
		}},
	}
}

// gcra returns the quota of throttled.
func (l load) gcra() throttled.RateQuota {
	return throttled.RateQuota{MaxRate: throttled.PerHour(l.requests), MaxBurst: l.requests - 1}
}

// newGoLimiter returns a store of go-limiter.
func newGoLimiter(l load) (golimiter.Store, error) {
	return memorystore.New(&memorystore.Config{Tokens: uint64(l.requests), Interval: time.Hour})
}

// sashHTTP returns the wrap function of sash with algorithm a.
func sashHTTP(a core.Algorithm) func(load, http.Handler) (http.Handler, error) {
	return func(l load, next http.Handler) (http.Handler, error) {
		limiter, err := l.inMemory(a)
		if err != nil {
			return nil, err
		}
		return nethttp.Middleware(limiter, keyfuncs.RemoteIP)(next), nil
	}
}

// echoLibraries returns the middleware of echo that is compared. echo's own
// RateLimiter writes no headers.
func echoLibraries() []library {
	serve := func(limit echo.MiddlewareFunc, next http.Handler) http.Handler {
		e := echo.New()
		// echo's guide recommends this setting for a server without a proxy. Without
		// the setting, RealIP, which names the client for echo's RateLimiter, reads two
		// headers first.
		e.IPExtractor = echo.ExtractIPDirect()
		e.Use(limit)
		e.GET("/", func(c echo.Context) error {
			next.ServeHTTP(c.Response(), c.Request())
			return nil
		})
		return e
	}
	sash := func(a core.Algorithm) func(load, http.Handler) (http.Handler, error) {
		return func(l load, next http.Handler) (http.Handler, error) {
			limiter, err := l.inMemory(a)
			if err != nil {
				return nil, err
			}
			return serve(sashecho.Middleware(limiter, keyfuncs.RemoteIP), next), nil
		}
	}
	return []library{
		{"sash counter", true, sash(core.SlidingCounter)},
		{"sash log", true, sash(core.SlidingLog)},
		{"echo RateLimiter", false, func(l load, next http.Handler) (http.Handler, error) {
			store := middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{
				Rate: rate.Limit(l.perSecond()), Burst: l.requests, ExpiresIn: time.Hour,
			})
			return serve(middleware.RateLimiter(store), next), nil
		}},
	}
}

// decider is a limiter that decides about one key, without HTTP.
type decider struct {
	name string
	sash bool
	make func(load) (allow func() bool, err error)
}

// deciders returns the limiters that are compared without HTTP.
func deciders() []decider {
	sash := func(a core.Algorithm) func(load) (func() bool, error) {
		return func(l load) (func() bool, error) {
			limiter, err := l.inMemory(a)
			if err != nil {
				return nil, err
			}
			ctx := context.Background()
			return func() bool { return limiter.Allow(ctx, "user:42").Allowed }, nil
		}
	}
	return []decider{
		{"sash counter", true, sash(core.SlidingCounter)},
		{"sash log", true, sash(core.SlidingLog)},
		{"x/time/rate", false, func(l load) (func() bool, error) {
			limiter := rate.NewLimiter(rate.Limit(l.perSecond()), l.requests)
			return func() bool { return limiter.AllowN(time.Now(), 1) }, nil
		}},
	}
}
