package bench

import (
	"cmp"
	"context"
	"math"
	"net"
	"net/http"
	"time"

	"github.com/didip/tollbooth/v7"
	"github.com/go-chi/httprate"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	echo5 "github.com/labstack/echo/v5"
	middleware5 "github.com/labstack/echo/v5/middleware"
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
	sashecho5 "github.com/sashlimit/sash/echo5"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// load is the limit that all libraries enforce. Fixed windows, token buckets and sliding windows get the same numbers,
// which mean a different rule for each.
type load struct {
	requests int // in a window, all of which may come at once
	window   time.Duration

	// log is the limit that a sliding log enforces instead, if it is set. A log remembers each request of its window,
	// and the requests of an hour of a benchmark do not fit.
	log core.Limit

	room int64 // the bound of memstore in bytes; 0 means memstore's default
}

const unlimited = 1 << 30 // requests an hour that no contestant gets through

func perHour(requests int) load { return load{requests: requests, window: time.Hour} }

// perSecond returns the requests a second.
func (l load) perSecond() float64 { return float64(l.requests) / l.window.Seconds() }

// limit returns the limit of a sash contestant with algorithm a.
func (l load) limit(a core.Algorithm) core.Limit {
	switch n := int64(l.requests); {
	case a == core.Bucket && n == unlimited: // which would fill at once, and a full one counts nothing
		return core.Per(1<<20, core.MaxWindow).Using(a)
	case a != core.SlidingLog:
		return core.Per(n, l.window).Using(a)
	case l.log != (core.Limit{}):
		return l.log
	default:
		return core.Per(min(n, core.MaxLogRequests), l.window)
	}
}

// inMemory returns a limiter of sash with a store of its own.
func (l load) inMemory(a core.Algorithm) (*core.Limiter, error) {
	return core.New(core.Config{
		Name:         "bench",
		Store:        memstore.New(memstore.WithMaxBytes(cmp.Or(l.room, memstore.DefaultMaxBytes))),
		Limits:       []core.Limit{l.limit(a)},
		OnStoreError: core.FailClosed,
		Quiet:        []string{"large-log"},
	})
}

// gcra returns the quota of throttled.
func (l load) gcra() throttled.RateQuota {
	return throttled.RateQuota{MaxRate: throttled.PerDuration(l.requests, l.window), MaxBurst: l.requests - 1}
}

// throttled returns the limiter of throttled, with keys that are kept: 0 for all.
func (l load) throttled(kept int) (*throttled.GCRARateLimiterCtx, error) {
	store, err := throttledmem.NewCtx(kept)
	if err != nil {
		return nil, err
	}
	return throttled.NewGCRARateLimiterCtx(store, l.gcra())
}

// goLimiter returns the store of go-limiter.
func (l load) goLimiter() (golimiter.Store, error) {
	return memorystore.New(&memorystore.Config{Tokens: uint64(l.requests), Interval: l.window})
}

// library is a middleware of net/http or echo. It limits requests by the address of the client's socket and writes its
// default headers.
type library struct {
	name string
	sash bool
	wrap func(load, http.Handler) (http.Handler, error)
}

// sashLibraries returns the libraries of sash with each algorithm. guard puts a limiter before a handler.
func sashLibraries(guard func(*core.Limiter, http.Handler) http.Handler) []library {
	wrap := func(a core.Algorithm) func(load, http.Handler) (http.Handler, error) {
		return func(l load, next http.Handler) (http.Handler, error) {
			limiter, err := l.inMemory(a)
			if err != nil {
				return nil, err
			}
			return guard(limiter, next), nil
		}
	}
	return []library{
		{"sash counter", true, wrap(core.SlidingCounter)},
		{"sash log", true, wrap(core.SlidingLog)},
	}
}

// sashHTTP puts a limiter before a handler of net/http.
func sashHTTP(limiter *core.Limiter, next http.Handler) http.Handler {
	return nethttp.Middleware(limiter, keyfuncs.RemoteIP)(next)
}

// libraries returns the middleware of net/http that is compared.
func libraries() []library {
	return append(sashLibraries(sashHTTP), []library{
		{"httprate", false, func(l load, next http.Handler) (http.Handler, error) {
			return httprate.LimitBy(l.requests, l.window, func(r *http.Request) (string, error) {
				ip, _, err := net.SplitHostPort(r.RemoteAddr)
				return httprate.CanonicalizeIP(ip), err
			})(next), nil
		}},
		{"ulule", false, func(l load, next http.Handler) (http.Handler, error) {
			limiter := ulule.New(ululemem.NewStore(), ulule.Rate{Period: l.window, Limit: int64(l.requests)})
			return ululehttp.NewMiddleware(limiter).Handler(next), nil
		}},
		{"throttled", false, func(l load, next http.Handler) (http.Handler, error) {
			return l.guardThrottled(0, next)
		}},
		{"go-limiter", false, func(l load, next http.Handler) (http.Handler, error) {
			store, err := l.goLimiter()
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
	}...)
}

// guardThrottled puts throttled's middleware before a handler.
func (l load) guardThrottled(kept int, next http.Handler) (http.Handler, error) {
	limiter, err := l.throttled(kept)
	guard := throttled.HTTPRateLimiterCtx{RateLimiter: limiter, VaryBy: &throttled.VaryBy{RemoteAddr: true}}
	return guard.RateLimit(next), err
}

// echoLibraries returns the middleware of echo v4 that is compared. echo's own RateLimiter writes no headers.
func echoLibraries() []library {
	sash := sashLibraries(func(limiter *core.Limiter, next http.Handler) http.Handler {
		return serveEcho(sashecho.Middleware(limiter, keyfuncs.RemoteIP), next)
	})
	return append(sash, library{"echo v4", false, func(l load, next http.Handler) (http.Handler, error) {
		store := middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{
			Rate: rate.Limit(l.perSecond()), Burst: l.requests, ExpiresIn: time.Hour,
		})
		return serveEcho(middleware.RateLimiter(store), next), nil
	}})
}

// serveEcho returns an echo v4 with a middleware before a handler.
func serveEcho(limit echo.MiddlewareFunc, next http.Handler) http.Handler {
	e := echo.New()
	// echo's guide recommends this setting for a server without a proxy. Without it RealIP, which names the client for
	// echo's RateLimiter, reads two headers first.
	e.IPExtractor = echo.ExtractIPDirect()
	e.Use(limit)
	e.GET("/", echo.WrapHandler(next))
	return e
}

// echo5Libraries returns the middleware of echo v5 that is compared. echo's own RateLimiter takes the client's address
// from the socket by default.
func echo5Libraries() []library {
	sash := sashLibraries(func(limiter *core.Limiter, next http.Handler) http.Handler {
		return serveEcho5(sashecho5.Middleware(limiter, keyfuncs.RemoteIP), next)
	})
	return append(sash, library{"echo v5", false, func(l load, next http.Handler) (http.Handler, error) {
		store := middleware5.NewRateLimiterMemoryStoreWithConfig(middleware5.RateLimiterMemoryStoreConfig{
			Rate: l.perSecond(), Burst: l.requests, ExpiresIn: time.Hour,
		})
		return serveEcho5(middleware5.RateLimiter(store), next), nil
	}})
}

// serveEcho5 returns an echo v5 with a middleware before a handler.
func serveEcho5(limit echo5.MiddlewareFunc, next http.Handler) http.Handler {
	e := echo5.New()
	e.Use(limit)
	e.GET("/", echo5.WrapHandler(next))
	return e
}

// decider is a limiter in memory that decides without HTTP, for many goroutines.
type decider struct {
	name string
	sash bool
	open func(load) (allow func(key string) (bool, error), err error)
}

// deciders returns the limiters that are compared.
func deciders() []decider {
	ctx := context.Background()
	decide := func(a core.Algorithm) func(load) (func(string) (bool, error), error) {
		return func(l load) (func(string) (bool, error), error) {
			limiter, err := l.inMemory(a)
			return func(key string) (bool, error) {
				d := limiter.Allow(ctx, key)
				return d.Allowed, d.Err
			}, err
		}
	}
	return []decider{
		{"sash counter", true, decide(core.SlidingCounter)},
		{"sash log", true, decide(core.SlidingLog)},
		{"sash coarse log", true, decide(core.CoarseLog)},
		{"sash bucket", true, decide(core.Bucket)},
		{"httprate", false, func(l load) (func(string) (bool, error), error) {
			// What its OnLimit does, but for the fields. With a counter that is given it has windows from the epoch on.
			counter := httprate.NewLocalLimitCounter(l.window)
			limiter := httprate.NewRateLimiter(l.requests, l.window, httprate.WithLimitCounter(counter))
			return func(key string) (bool, error) {
				_, used, err := limiter.Status(key)
				ok := int(math.Round(used)) < l.requests
				if ok && err == nil {
					err = counter.Increment(key, time.Now().UTC().Truncate(l.window))
				}
				return ok, err
			}, nil
		}},
		{"throttled", false, func(l load) (func(string) (bool, error), error) {
			limiter, err := l.throttled(0)
			if err != nil {
				return nil, err
			}
			limiter.SetMaxCASAttemptsLimit(1000) // with one key, its attempts collide
			return func(key string) (bool, error) {
				limited, _, err := limiter.RateLimitCtx(ctx, key, 1)
				return !limited, err
			}, nil
		}},
		{"go-limiter", false, func(l load) (func(string) (bool, error), error) {
			store, err := l.goLimiter()
			return func(key string) (bool, error) {
				_, _, _, ok, err := store.Take(ctx, key)
				return ok, err
			}, err
		}},
	}
}
