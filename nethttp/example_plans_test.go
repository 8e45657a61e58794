package nethttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// ask sends a request of a client and shows its status and its limit.
func ask(h http.Handler, client string) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("X-Client", client)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	fmt.Println(client, w.Code, w.Header().Get("X-RateLimit-Remaining"), "of", w.Header().Get("X-RateLimit-Limit"))
}

var byClient = keyfuncs.Header("X-Client")

// Each account has the limits of the plan that it pays for.
func ExampleWithLimiter() {
	free := core.Must(core.New(core.Config{
		Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerHour(2)},
	}))
	pro := core.Must(free.WithLimits(core.PerHour(1000), core.PerDay(5000)))
	accounts := map[string]string{"secret-1": "ann", "secret-2": "bob"} // by API key
	byAPIKey := keyfuncs.APIKey("X-Client", func(_ context.Context, presented string) (string, error) {
		return accounts[presented], nil
	})
	isPro := map[string]bool{keyfuncs.APIKeyKey("bob"): true}
	handler := nethttp.Middleware(free, byAPIKey,
		nethttp.WithLimiter(func(_ *http.Request, key string) (*core.Limiter, error) {
			if isPro[key] {
				return pro, nil
			}
			return nil, nil // the guard's own
		}))(hello)

	ask(handler, "secret-2")
	for range 3 {
		ask(handler, "secret-1")
	}
	isPro[keyfuncs.APIKeyKey("ann")] = true // and keeps what it has used
	ask(handler, "secret-1")
	// Output:
	// secret-2 200 999 of 1000
	// secret-1 200 1 of 2
	// secret-1 200 0 of 2
	// secret-1 429 0 of 2
	// secret-1 200 997 of 1000
}

// Each client has the number that a database has for it.
func ExampleWithLimits() {
	api := core.Must(core.New(core.Config{
		Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerHour(2)},
	}))
	numbers := map[string]int64{"header:x-client:ann": 5}
	byNumber := nethttp.WithLimits(func(_ *http.Request, key string) ([]core.Limit, error) {
		switch n, known := numbers[key]; {
		case !known:
			return nil, nil // those of api
		case n < 0:
			return nil, errors.New("the account is closed") // answered with 500, and observed
		default:
			return []core.Limit{core.PerHour(n)}, nil
		}
	})
	handler := nethttp.Middleware(api, byClient, byNumber)(hello)

	ask(handler, "ann")
	ask(handler, "bob")
	// Output:
	// ann 200 4 of 5
	// bob 200 1 of 2
}

// A new limit is tried out in production before it refuses anything.
func ExampleShadowWhile() {
	refusals := 0
	api := core.Must(core.New(core.Config{
		Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerHour(1)},
		Observer: core.ObserverFunc(func(_ context.Context, e core.Event) {
			if e.Shadow && !e.Decision.Allowed {
				refusals++
			}
		}),
	}))
	var trial atomic.Bool
	trial.Store(true)
	handler := nethttp.Middleware(api, keyfuncs.RemoteIP, nethttp.ShadowWhile(trial.Load))(hello)
	show(handler, "/", "X-RateLimit-Limit")
	show(handler, "/")
	fmt.Println("would have been refused:", refusals)
	trial.Store(false)
	show(handler, "/")
	// Output:
	// / 200
	//   X-RateLimit-Limit: ""
	// / 200
	// would have been refused: 1
	// / 429
}

// The office is never limited.
func ExampleSkip() {
	api := core.Must(core.New(core.Config{
		Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerHour(1)},
	}))
	office, addr := netip.MustParsePrefix("192.0.2.0/24"), keyfuncs.Addr() // requests of httptest come from 192.0.2.1
	exempt := nethttp.Skip(func(r *http.Request) bool {
		a, err := addr(r)
		return err == nil && office.Contains(a)
	})
	handler := nethttp.Middleware(api, keyfuncs.RemoteIP, exempt)(hello)
	show(handler, "/")
	show(handler, "/")
	// Output:
	// / 200
	// / 200
}

// One client cannot eat what all clients share: a request that its own limit refuses is
// not counted by the other.
func ExampleTogether() {
	client := core.Must(core.New(core.Config{
		Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerHour(2)},
	}))
	global := core.Must(client.Rule("global", core.PerHour(3)))
	handler := nethttp.Middleware(client, byClient,
		nethttp.Together(nethttp.Pair{Limiter: global, Key: keyfuncs.Everyone}))(hello)

	for range 4 {
		ask(handler, "ann")
	}
	ask(handler, "bob")
	ask(handler, "bob")
	// Output:
	// ann 200 1 of 2
	// ann 200 0 of 2
	// ann 429 0 of 2
	// ann 429 0 of 2
	// bob 200 0 of 3
	// bob 429 0 of 3
}
