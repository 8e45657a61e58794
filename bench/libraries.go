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

// load is the limit that all libraries enforce: so many requests an hour, all of
// which may come at once. It is the same number for fixed windows, token
// buckets and sliding windows, which mean different things by it.
type load struct {
	requests int

	// log is what a sliding log enforces, if it must be another limit than the
	// others': a log remembers each request of its window, so an hour of a
	// benchmark is more than fits.
	log core.Limit

	// room is what memstore is bounded to; 0 is its default.
	room int64
}

const unlimited = 1 << 30 // requests an hour that no contestant gets through

func (l load) perSecond() float64 { return float64(l.requests) / time.Hour.Seconds() }

// limit is the limit of a sash contestant.
func (l load) limit(a core.Algorithm) core.Limit {
	if a == core.SlidingLog && l.log != (core.Limit{}) {
		return l.log
	}
	return core.PerHour(int64(l.requests)).Using(a)
}

// inMemory is a limiter of sash with a store of its own.
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

// library limits net/http by the address of the client's socket and writes the
// headers that it writes by default.
type library struct {
	name string
	sash bool
	wrap func(load, http.Handler) (http.Handler, error)
}

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

func (l load) gcra() throttled.RateQuota {
	return throttled.RateQuota{MaxRate: throttled.PerHour(l.requests), MaxBurst: l.requests - 1}
}

func newGoLimiter(l load) (golimiter.Store, error) {
	return memorystore.New(&memorystore.Config{Tokens: uint64(l.requests), Interval: time.Hour})
}

func sashHTTP(a core.Algorithm) func(load, http.Handler) (http.Handler, error) {
	return func(l load, next http.Handler) (http.Handler, error) {
		limiter, err := l.inMemory(a)
		if err != nil {
			return nil, err
		}
		return nethttp.Middleware(limiter, keyfuncs.RemoteIP)(next), nil
	}
}

// echoLibraries limit an echo server; echo's own writes no headers.
func echoLibraries() []library {
	serve := func(limit echo.MiddlewareFunc, next http.Handler) http.Handler {
		e := echo.New()
		// As echo's guide has it where there is no proxy. Without it RealIP, which
		// names the client for echo's RateLimiter, looks into two headers first.
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

// decider decides about one key, without HTTP.
type decider struct {
	name string
	sash bool
	make func(load) (allow func() bool, err error)
}

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
