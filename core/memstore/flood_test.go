//go:build !race && !short

package memstore_test

import (
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
)

// TestFloodOfFreshKeys sends ten times as many clients as fit, each with one
// request. Neither the store's own count nor the heap may pass the bound, no
// new key is turned away, and clients who have used half of their limit are
// not forgotten for those that have used a hundredth.
func TestFloodOfFreshKeys(t *testing.T) {
	for _, size := range []int{small, large} {
		for _, a := range algorithms {
			before := heap()
			s, _ := newStore(int64(size))
			l := limiter(t, s, core.PerHour(100).Using(a))
			halves := fits(size) / 20
			for i := range halves {
				l.AllowN(ctx, key("half ", i), 50)
			}
			for i := range 10 * fits(size) {
				if d := l.Allow(ctx, key("fresh ", i)); !d.Allowed {
					t.Fatalf("%d, %v: new key %d: %+v", size, a, i, d)
				}
				bounded(t, s, int64(size))
			}
			if grown, slack := heap()-before, int64(size/16+64<<10); grown > int64(size)+slack {
				t.Errorf("%d, %v: the heap grew by %d", size, a, grown)
			}
			if n := s.Stats().Bytes; n < int64(size)*9/10 {
				t.Errorf("%d, %v: a full store holds %d bytes", size, a, n)
			}
			lost := 0
			for i := range halves {
				if d := l.AllowN(ctx, key("half ", i), 0); d.Remaining != 50 && (a != core.Bucket || d.Remaining != 49) { // rounded
					lost++
				}
			}
			if lost > 0 {
				t.Errorf("%d, %v: %d of %d clients at half their limit were forgotten", size, a, lost, halves)
			}
		}
	}
}

// exhaust sends many more clients than fit, a millisecond apart, and returns those
// that were admitted, in their order. They are at their limit of 1.
func exhaust(l *core.Limiter, c *clock, size int) (clients []string) {
	for i := range 3 * fits(size) {
		k := key("exhausted ", i)
		if l.Allow(ctx, k).Allowed {
			clients = append(clients, k)
		}
		c.Add(time.Millisecond)
	}
	return clients
}

// TestExpiryGivesMemoryBack: when everything has expired, some traffic on one
// client, or only looks, free all of it.
func TestExpiryGivesMemoryBack(t *testing.T) {
	for _, a := range algorithms {
		for _, size := range []int{small, large} {
			for _, traffic := range []string{"requests", "looks"} {
				s, c := newStore(int64(size))
				empty := s.Stats().Bytes
				l := limiter(t, s, core.PerHour(100).Using(a))
				for i := range fits(size) {
					l.AllowN(ctx, key("k", i), 1+int64(i%3))
				}
				if s.Stats().Bytes < int64(size)*8/10 {
					t.Fatalf("%d bytes of %d: not full", s.Stats().Bytes, size)
				}
				c.Add(3*time.Hour + 2*time.Minute) // a sketch's epoch, of a CoarseLog 61 minutes, and two windows
				for i := range 2 * fits(size) {    // many clients, to come by every shard
					if k := key("later ", i%100); traffic == "looks" {
						l.Peek(ctx, k)
					} else if d := l.Allow(ctx, k); d.Err != nil {
						t.Fatal(d.Err)
					}
				}
				// A chunk of each shard stays, and the hundred with up to 100 stamps.
				shards := int64(max(1, size/(512<<10)))
				if most := empty + shards*8<<10 + 100*1300; s.Stats().Bytes > most {
					t.Errorf("%v, %d, %s: %d bytes are left, want at most %d", a, size, traffic, s.Stats().Bytes, most)
				}
				if err := s.Audit(); err != nil {
					t.Errorf("%v, %d, %s: %v", a, size, traffic, err)
				}
			}
		}
	}
}
