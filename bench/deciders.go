package bench

import (
	"context"
	"time"

	"github.com/didip/tollbooth/v7"
	"golang.org/x/time/rate"

	"github.com/sashlimit/sash/core"
)

// decider is a limiter that decides without HTTP, for many goroutines.
type decider struct {
	name string
	sash bool
	make func(load) (allow func(key string) (bool, error), err error)
}

// sashDeciders returns limiters of sash with each algorithm.
func sashDeciders() []decider {
	decide := func(a core.Algorithm) func(load) (func(string) (bool, error), error) {
		return func(l load) (func(string) (bool, error), error) {
			limiter, err := l.inMemory(a, nil)
			if err != nil {
				return nil, err
			}
			ctx := context.Background()
			return func(key string) (bool, error) {
				d := limiter.Allow(ctx, key)
				return d.Allowed, d.Err
			}, nil
		}
	}
	return []decider{
		{"sash counter", true, decide(core.SlidingCounter)},
		{"sash log", true, decide(core.SlidingLog)},
	}
}

// oneKeyDeciders returns the limiters that are compared with one key. x/time/rate has
// one bucket, whatever the key.
func oneKeyDeciders() []decider {
	return append(sashDeciders(), decider{"x/time/rate", false, func(l load) (func(string) (bool, error), error) {
		limiter := rate.NewLimiter(rate.Limit(l.perSecond()), l.requests)
		return func(string) (bool, error) { return limiter.AllowN(time.Now(), 1), nil }, nil
	}})
}

// keyedDeciders returns the limiters that are compared with many keys.
func keyedDeciders() []decider {
	ctx := context.Background()
	return append(sashDeciders(), []decider{
		{"ulule", false, func(l load) (func(string) (bool, error), error) {
			limiter := l.ulule()
			return func(key string) (bool, error) {
				d, err := limiter.Get(ctx, key)
				return !d.Reached, err
			}, nil
		}},
		{"throttled", false, func(l load) (func(string) (bool, error), error) {
			limiter, err := l.throttled()
			return func(key string) (bool, error) {
				limited, _, err := limiter.RateLimitCtx(ctx, key, 1)
				return !limited, err
			}, err
		}},
		{"go-limiter", false, func(l load) (func(string) (bool, error), error) {
			store, err := l.goLimiter()
			return func(key string) (bool, error) {
				_, _, _, ok, err := store.Take(ctx, key)
				return ok, err
			}, err
		}},
		{"tollbooth", false, func(l load) (func(string) (bool, error), error) {
			limiter := tollbooth.NewLimiter(l.perSecond(), nil).SetBurst(l.requests)
			return func(key string) (bool, error) { return !limiter.LimitReached(key), nil }, nil
		}},
		{"echo RateLimiter", false, func(l load) (func(string) (bool, error), error) {
			return l.echoStore().Allow, nil
		}},
	}...)
}
