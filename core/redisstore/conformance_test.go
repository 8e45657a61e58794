//go:build !race && !short

package redisstore

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/internal/redistest"
)

// bare is a store without the links in front of Redis.
type bare struct{ *Store }

func (s bare) Bind(rule core.Binding) (core.Ledger, error) { return s.newLedger(rule), nil }

// TestConformanceElsewhere: clients of all kinds give the same answers, and so do the last link by itself, and leases:
// with them, rules that cannot be leased, and keys that are not busy, are as exact as without. Three subtests are run
// without leases: they demand the exact number or moment of rules that are leased, where a lease may refuse early and
// is counted at its end.
func TestConformanceElsewhere(t *testing.T) {
	t.Parallel()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{
		"a": redistest.Start(t).Addr(), "b": redistest.Start(t).Addr(), "c": redistest.Start(t).Addr(),
	}})
	t.Cleanup(func() { ring.Close() })
	mini := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr(), ReadTimeout: time.Minute})
	t.Cleanup(func() { mini.Close() })
	single, cluster := redistest.Start(t).Client(t), redistest.StartCluster(t, 3, 0).Client(t)
	for name, factory := range map[string]func(*testing.T) core.Store{
		"Cluster":   func(*testing.T) core.Store { return New(cluster) },
		"Ring":      func(*testing.T) core.Store { return New(ring) },
		"miniredis": func(*testing.T) core.Store { return New(mini) },
		"bare":      func(*testing.T) core.Store { return bare{New(single)} },
		"leased": func(t *testing.T) core.Store {
			for _, exact := range []string{"/Histories", "/Concurrency", "/Extremes"} {
				if strings.HasSuffix(t.Name(), exact) {
					return New(single)
				}
			}
			return New(single, WithLease(1000, time.Minute))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, factory)
		})
	}
}
