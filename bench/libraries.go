package bench

import (
	"cmp"
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

// inMemory returns a limiter of sash with a store of its own. observer may be nil.
func (l load) inMemory(a core.Algorithm, observer core.Observer) (*core.Limiter, error) {
	return core.New(core.Config{
		Name:         "bench",
		Store:        memstore.New(memstore.WithMaxBytes(cmp.Or(l.room, memstore.DefaultMaxBytes))),
		Limits:       []core.Limit{l.limit(a)},
		OnStoreError: core.FailClosed,
		Observer:     observer,
	})
}

// ulule returns the limiter of ulule.
func (l load) ulule() *ulule.Limiter {
	return ulule.New(ululemem.NewStore(), ulule.Rate{Period: time.Hour, Limit: int64(l.requests)})
}

// gcra returns the quota of throttled.
func (l load) gcra() throttled.RateQuota {
	return throttled.RateQuota{MaxRate: throttled.PerHour(l.requests), MaxBurst: l.requests - 1}
}

// throttled returns the limiter of throttled.
func (l load) throttled() (*throttled.GCRARateLimiterCtx, error) {
	store, err := throttledmem.NewCtx(0)
	if err != nil {
		return nil, err
	}
	return throttled.NewGCRARateLimiterCtx(store, l.gcra())
}

// goLimiter returns the store of go-limiter.
func (l load) goLimiter() (golimiter.Store, error) {
	return memorystore.New(&memorystore.Config{Tokens: uint64(l.requests), Interval: time.Hour})
}

// echoStore returns the store of echo's RateLimiter.
func (l load) echoStore() *middleware.RateLimiterMemoryStore {
	return middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{
		Rate: rate.Limit(l.perSecond()), Burst: l.requests, ExpiresIn: time.Hour,
	})
}

// library is a middleware of net/http or echo. It limits requests by the address of
// the client's socket and writes its default headers.
type library struct {
	name string
	sash bool
	wrap func(load, http.Handler) (http.Handler, error)
}

// sashLibraries returns the libraries of sash with each algorithm. guard puts a limiter
// before a handler.
func sashLibraries(guard func(*core.Limiter, http.Handler) http.Handler) []library {
	wrap := func(a core.Algorithm) func(load, http.Handler) (http.Handler, error) {
		return func(l load, next http.Handler) (http.Handler, error) {
			limiter, err := l.inMemory(a, nil)
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
			return httprate.LimitBy(l.requests, time.Hour, func(r *http.Request) (string, error) {
				ip, _, err := net.SplitHostPort(r.RemoteAddr)
				return httprate.CanonicalizeIP(ip), err
			})(next), nil
		}},
		{"ulule", false, func(l load, next http.Handler) (http.Handler, error) {
			return ululehttp.NewMiddleware(l.ulule()).Handler(next), nil
		}},
		{"throttled", false, func(l load, next http.Handler) (http.Handler, error) {
			limiter, err := l.throttled()
			guard := throttled.HTTPRateLimiterCtx{RateLimiter: limiter, VaryBy: &throttled.VaryBy{RemoteAddr: true}}
			return guard.RateLimit(next), err
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

// echoLibraries returns the middleware of echo that is compared. echo's own
// RateLimiter writes no headers.
func echoLibraries() []library {
	sash := sashLibraries(func(limiter *core.Limiter, next http.Handler) http.Handler {
		return serveEcho(sashecho.Middleware(limiter, keyfuncs.RemoteIP), next)
	})
	return append(sash, library{
		"echo RateLimiter", false, func(l load, next http.Handler) (http.Handler, error) {
			return serveEcho(middleware.RateLimiter(l.echoStore()), next), nil
		},
	})
}

// serveEcho returns an echo with a middleware before a handler.
func serveEcho(limit echo.MiddlewareFunc, next http.Handler) http.Handler {
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
