package adaptertest

import (
	"context"
	"net/http"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/fakeclock"
	"github.com/sashlimit/sash/nethttp"
)

// nopObserver is an observer that drops events and notices, so that guards do all that they do for an
// observer and the suite writes no log.
var nopObserver = core.Observers(core.Silent, core.ObserverFunc(func(context.Context, core.Event) {}))

// newLimiter returns a limiter with a store of its own. The store's clock stands still.
func newLimiter(limits ...core.Limit) *core.Limiter { return limiterOn(fakeclock.Store(), limits...) }

// limiterOn returns a limiter that counts in s.
func limiterOn(s core.Store, limits ...core.Limit) *core.Limiter {
	return core.Must(core.New(core.Config{Name: "test", Store: s, Limits: limits, Observer: nopObserver}))
}

// sameKey is a key function that gives all requests the same key.
func sameKey(*http.Request) (string, error) { return "user:all", nil }

// step returns a guard of l with the key of sameKey.
func step(l *core.Limiter, opts ...nethttp.Option) Step {
	return Step{Limiter: l, Key: sameKey, Options: opts}
}
