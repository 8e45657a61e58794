package nethttp_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// A login that counts failures alone: 2 in 15 minutes.
func ExampleCountWhen() {
	login := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.Per(2, 15*time.Minute)}}))
	failed := nethttp.CountWhen(func(r *http.Request, status int) bool { return status == http.StatusUnauthorized })
	handler := nethttp.Middleware(login, keyfuncs.RemoteIP, failed)(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if r.FormValue("password") != "right" {
				w.WriteHeader(http.StatusUnauthorized)
			}
		}))
	for _, password := range []string{"right", "right", "wrong", "right", "wrong", "right"} {
		show(handler, "/?password="+password)
	}
	// Output:
	// /?password=right 200
	// /?password=right 200
	// /?password=wrong 401
	// /?password=right 200
	// /?password=wrong 401
	// /?password=right 429
}

// A quota of bytes: 10 are charged before, and what was sent after.
func ExampleCostAfter() {
	traffic := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(100)}}))
	handler := nethttp.Middleware(traffic, keyfuncs.RemoteIP,
		nethttp.WithCost(func(*http.Request) int { return 10 }),
		nethttp.CostAfter(func(_ *http.Request, _ int, bytes int64) int { return int(bytes) }),
	)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%50s", "fifty bytes")
	}))
	for range 4 {
		show(handler, "/", "X-RateLimit-Remaining")
	}
	// Output:
	// / 200
	//   X-RateLimit-Remaining: "90"
	// / 200
	//   X-RateLimit-Remaining: "40"
	// / 429
	//   X-RateLimit-Remaining: "0"
	// / 429
	//   X-RateLimit-Remaining: "0"
}

// A quota of tokens that only the handler knows.
func ExampleFromContext() {
	tokens := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(1000)}}))
	handler := nethttp.Middleware(tokens, keyfuncs.RemoteIP, nethttp.WithDecisionInContext())(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			const used = 300
			if a, ok := nethttp.FromContext(r.Context()); ok {
				fmt.Println(a.Decision().Remaining, "are left before")
				if err := a.Settle(r.Context(), used); err != nil {
					fmt.Println(err)
				}
			}
		}))
	show(handler, "/")
	show(handler, "/")
	// Output:
	// 999 are left before
	// / 200
	// 699 are left before
	// / 200
}
