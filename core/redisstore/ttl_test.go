package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// TestTTLComesBack: keys whose TTL somebody took get one again.
func TestTTLComesBack(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	rdb := redistest.Start(t).Client(t)
	store := redisstore.New(rdb)
	const window = 400 * time.Millisecond
	log := core.Per(1_000_000, window)
	l := limiter(t, core.Config{
		Store: store, Timeout: patient,
		Limits: []core.Limit{log, log.Using(core.SlidingCounter).Named("counter")},
	})
	for _, key := range redisstore.Keys(store, l, "k") {
		redistest.WaitFor(t, "a key with a TTL", func() error { // a slow machine may find it expired
			if l.Allow(ctx, "k"); !rdb.Persist(ctx, key).Val() {
				return fmt.Errorf("%s had none", key)
			}
			return nil
		})
		redistest.WaitFor(t, "a TTL", func() error {
			l.Allow(ctx, "k")
			if ttl := rdb.PTTL(ctx, key).Val(); ttl <= 0 {
				return fmt.Errorf("%s has %v", key, ttl)
			}
			return nil
		})
	}
	redistest.WaitFor(t, "the keys to expire", func() error {
		if n := rdb.DBSize(ctx).Val(); n > 0 {
			return fmt.Errorf("%d are there", n)
		}
		return nil
	})
}
