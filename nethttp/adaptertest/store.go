package adaptertest

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/internal/still"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// store counts in memory, with a clock that stands still, and counts how often it was asked.
type store struct {
	core.Store
	calls atomic.Int64
}

func newStore() *store {
	s := &store{}
	s.Store = storetest.Wrap(still.Store(), func(ctx context.Context, call storetest.Call) (core.Decision, error) {
		if call.Verb == "Take" {
			s.calls.Add(1)
		}
		return call.Next(ctx)
	})
	return s
}

// asked returns the number of calls of the store since the last call of asked.
func (s *store) asked() int64 { return s.calls.Swap(0) }

var errDown = errors.New("down")

// outage is a store that fails each call.
var outage = storetest.Fixed(core.Decision{Err: errDown})

// deaf is an observer that drops events and notices, so that guards do all that they do for an
// observer and the suite writes no log.
type deaf struct{}

func (deaf) Observe(context.Context, core.Event) {}
func (deaf) Notice(context.Context, core.Notice) {}

// newLimiter returns a limiter with a store of its own. The store's clock stands still.
func newLimiter(limits ...core.Limit) *core.Limiter { return on(newStore(), limits...) }

// on returns a limiter that counts in s.
func on(s core.Store, limits ...core.Limit) *core.Limiter {
	return core.Must(core.New(core.Config{Name: "test", Store: s, Limits: limits, Observer: deaf{}}))
}

// rule returns a limiter with other limits that counts in the store of l.
func rule(l *core.Limiter, name string, limits ...core.Limit) *core.Limiter {
	return core.Must(l.Rule(name, limits...))
}

// by returns the step of a limiter with the address of the peer as its key.
func by(l *core.Limiter, opts ...nethttp.Option) []Step {
	return []Step{{Limiter: l, Key: keyfuncs.RemoteIP, Options: opts}}
}

// sameKey is a key function that gives all requests the same key.
func sameKey(*http.Request) (string, error) { return "user:all", nil }

// step returns a guard of l with the key of sameKey.
func step(l *core.Limiter, opts ...nethttp.Option) Step {
	return Step{Limiter: l, Key: sameKey, Options: opts}
}
