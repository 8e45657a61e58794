//go:build !race && !short

package memstore_test

import (
	"fmt"
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
			s.Audit(t)
			if n := s.Stats().Bytes; n < int64(size)*9/10 {
				t.Errorf("%d, %v: a full store holds %d bytes", size, a, n)
			}
			lost := 0
			for i := range halves {
				left := l.AllowN(ctx, key("half ", i), 0).Remaining
				if left != 50 && (a != core.Bucket || left != 49) { // rounded
					lost++
				}
			}
			if lost > 0 {
				t.Errorf("%d, %v: %d of %d clients at half their limit were forgotten", size, a, lost, halves)
			}
		}
	}
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
				s.Audit(t)
			}
		}
	}
}

// floodedBytes is the size of a store in the tests of what a flood costs others. A larger store gives
// the same answers to as many times the names and clients.
const floodedBytes = 256 << 10

// admitted returns how many of n clients with a request each are admitted.
func admitted(l *core.Limiter, name string, n int) (admitted int) {
	for i := range n {
		if l.Allow(ctx, key(name, i)).Allowed {
			admitted++
		}
	}
	return admitted
}

// TestNewKeysAfterFlood: after a flood of names, one request each, new keys are counted under the
// same limit unless it is one that a few requests fill: then nearly all are refused early.
func TestNewKeysAfterFlood(t *testing.T) {
	const names, newKeys = 156_250, 1562 // of 10 million and 100,000 in 16 MiB
	for _, c := range []struct {
		limit       core.Limit
		least, most int
	}{
		{core.PerHour(1), 0, newKeys / 50}, // about 1 in 100, by the hashes of the run
		{core.Per(5, 15*time.Minute), 0, newKeys / 50},
		{core.PerHour(100), newKeys, newKeys},
		{core.PerDay(1000), newKeys, newKeys},
	} {
		s, _ := newStore(floodedBytes)
		l := limiter(t, s, c.limit)
		admitted(l, "name ", names)
		if got := admitted(l, "new key ", newKeys); got < c.least || got > c.most {
			t.Errorf("%v: got %d of %d newKeys counted, want %d to %d", c.limit, got, newKeys, c.least, c.most)
		}
	}
}

// TestGoodBesideNames: clients that send 60 of their 100 requests an hour are all served, while an
// hour's flood of names goes on.
func TestGoodBesideNames(t *testing.T) {
	const names, good = 78_125, 128 // of 5 million and 8,192 in 16 MiB
	s, c := newStore(floodedBytes)
	l := limiter(t, s, core.PerHour(100))
	for minute := range 60 {
		if got := admitted(l, "good ", good); got != good {
			t.Fatalf("minute %d: got %d good clients served, want all %d", minute, got, good)
		}
		for i := range names / 60 {
			l.Allow(ctx, fmt.Sprint("name ", minute, " ", i))
			c.Add(time.Minute / (names/60 + 1))
		}
	}
}

// TestNobodyInALargerStore is TestNobodyIsAdmittedAboveItsLimit in a store that takes the race detector too long.
func TestNobodyInALargerStore(t *testing.T) { floodStores(t, 256<<10) }
