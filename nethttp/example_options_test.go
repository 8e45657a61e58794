package nethttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

func ExampleLimitByIP() {
	handler := nethttp.LimitByIP(core.PerSecond(10), core.PerHour(2))(hello)
	for range 3 {
		show(handler, "/")
	}
	// Output:
	// / 200
	// / 200
	// / 429
}

// New returns an error where Middleware panics.
func ExampleNew() {
	api := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(1)}}))
	_, err := nethttp.New(api, keyfuncs.RemoteIP, nethttp.SkipPaths("health"))
	fmt.Println(err != nil)

	guard := core.Must(nethttp.New(api, keyfuncs.RemoteIP, nethttp.SkipPaths("/health")))
	show(guard.Handler(hello), "/", "X-RateLimit-Remaining")
	// Output:
	// true
	// / 200
	//   X-RateLimit-Remaining: "0"
}

// A limit of each client, and one that all clients share: a request counts against both, or against neither.
func ExampleDecideAll() {
	perClient := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(1)}}))
	global := core.Must(perClient.Rule("global", core.PerHour(1000)))
	allClients := nethttp.Pair{Limiter: global, Key: keyfuncs.AllClients}
	handler := nethttp.Middleware(perClient, keyfuncs.RemoteIP, nethttp.DecideAll(allClients))(hello)
	show(handler, "/")
	show(handler, "/")
	fmt.Println(global.AllowN(context.Background(), "all-clients", 0).Remaining, "of 1000 are left for all")
	// Output:
	// / 200
	// / 429
	// 999 of 1000 are left for all
}

// Each client has the limiter of its plan, which is made once.
func ExampleWithLimiter() {
	api := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(2)}}))
	plans := map[string]*core.Limiter{"ip:192.0.2.1": core.Must(api.WithLimits(core.PerHour(100)))}
	byPlan := nethttp.WithLimiter(func(_ *http.Request, key string) (*core.Limiter, error) {
		return plans[key], nil // nil is api
	})
	show(nethttp.Middleware(api, keyfuncs.RemoteIP, byPlan)(hello), "/", "X-RateLimit-Remaining")
	// Output:
	// / 200
	//   X-RateLimit-Remaining: "99"
}

// Each client has the number that a database has for it.
func ExampleWithLimits() {
	api := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(2)}}))
	numbers := map[string]int64{"ip:192.0.2.1": 5}
	byNumber := nethttp.WithLimits(func(_ *http.Request, key string) ([]core.Limit, error) {
		if n, ok := numbers[key]; ok {
			return []core.Limit{core.PerHour(n)}, nil
		}
		return nil, nil // those of api; after an error the policy of api decides
	})
	show(nethttp.Middleware(api, keyfuncs.RemoteIP, byNumber)(hello), "/", "X-RateLimit-Remaining")
	// Output:
	// / 200
	//   X-RateLimit-Remaining: "4"
}

// A limit that only counts at first, and refuses from the moment that it is switched on.
func ExampleShadowWhile() {
	api := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(1)}}))
	var trial atomic.Bool
	trial.Store(true)
	handler := nethttp.Middleware(api, keyfuncs.RemoteIP, nethttp.ShadowWhile(trial.Load))(hello)
	show(handler, "/")
	show(handler, "/")
	trial.Store(false)
	show(handler, "/")
	// Output:
	// / 200
	// / 200
	// / 429
}

func ExampleSkip() {
	api := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(2)}}))
	reads := nethttp.Skip(func(r *http.Request) bool { return r.Method == http.MethodGet })
	show(nethttp.Middleware(api, keyfuncs.RemoteIP, reads)(hello), "/", "X-RateLimit-Limit")
	// Output:
	// / 200
	//   X-RateLimit-Limit: ""
}

// Without formats a response has no fields, and a refusal has Retry-After alone.
func ExampleWithHeaders() {
	api := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(2)}}))
	both := nethttp.WithHeaders(headers.XRateLimit, headers.IETF)
	show(nethttp.Middleware(api, keyfuncs.RemoteIP, both)(hello), "/", "X-RateLimit-Limit", "RateLimit-Policy")
	show(nethttp.Middleware(api, keyfuncs.RemoteIP, nethttp.WithHeaders())(hello), "/", "X-RateLimit-Limit")
	// Output:
	// / 200
	//   X-RateLimit-Limit: "2"
	//   RateLimit-Policy: "\"1h0m0s\";q=2;w=3600"
	// / 200
	//   X-RateLimit-Limit: ""
}

// The label is for metrics: a name of the route, never the path, which clients choose.
func ExampleWithLabel() {
	api := core.Must(core.New(core.Config{
		Store: memstore.New(), Limits: []core.Limit{core.PerHour(1)},
		Observer: core.ObserverFunc(func(_ context.Context, e core.Event) { fmt.Println(e.Label) }),
	}))
	label := nethttp.WithLabel(func(*http.Request) string { return "GET /items/{id}" })
	show(nethttp.Middleware(api, keyfuncs.RemoteIP, label)(hello), "/items/42")
	// Output:
	// GET /items/{id}
	// /items/42 200
}

// While the store fails, clients come back in 30 to 60 seconds; after a 429, up to 10 seconds later than they may.
func ExampleWithOutageRetryAfter() {
	down := storetest.Fixed(core.Decision{Err: errors.New("connection refused")})
	login := core.Must(core.New(core.Config{
		Store: down, Limits: []core.Limit{core.PerHour(5)}, OnStoreError: core.FailClosed, Observer: core.Silent,
	}))
	handler := nethttp.Middleware(login, keyfuncs.RemoteIP,
		nethttp.WithOutageRetryAfter(30*time.Second), nethttp.WithRetryJitter(10*time.Second))(hello)
	show(handler, "/")
	// Output: / 503
}
