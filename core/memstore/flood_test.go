package memstore_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
)

const (
	small = 256 << 10 // one shard
	large = 2 << 20   // several
)

// fits is more than how many clients under one limit a store of that size holds.
func fits(size int) int { return size / 80 }

// TestFloodOfFreshKeys sends ten times as many clients as fit, each with one
// request. Neither the store's own count nor the heap may pass the bound, no
// newcomer is turned away, and clients who have used half of their limit are
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
					t.Fatalf("%d, %v: newcomer %d: %+v", size, a, i, d)
				}
				bounded(t, s, int64(size))
			}
			if grown, slack := heap()-before, int64(size/16+64<<10); grown > int64(size)+slack {
				t.Errorf("%d, %v: the heap grew by %d", size, a, grown)
			}
			if n := s.Bytes(); n < int64(size)*9/10 {
				t.Errorf("%d, %v: a full store holds %d bytes", size, a, n)
			}
			lost := 0
			for i := range halves {
				if d := l.AllowN(ctx, key("half ", i), 0); d.Remaining != 50 {
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

// TestFloodOfClientsAtTheirLimit fills the store with clients at their limit. No
// flood buys one of them its quota back, and every newcomer is counted.
func TestFloodOfClientsAtTheirLimit(t *testing.T) {
	for _, size := range []int{small, large} {
		for _, a := range algorithms {
			before := heap()
			s, c := newStore(int64(size))
			l := limiter(t, s, core.PerDay(1).Using(a))
			clients := exhaust(l, c, size)
			if want := fits(size); len(clients) < want {
				t.Fatalf("%d, %v: %d clients were admitted, want %d at least", size, a, len(clients), want)
			}
			for i := range 10 * fits(size) {
				k := key("newcomer ", i)
				if d := l.Allow(ctx, k); d.Err != nil {
					t.Fatalf("%d, %v: newcomer %d: %+v, want no error", size, a, i, d)
				} else if d.Allowed {
					clients = append(clients, k)
				}
				bounded(t, s, int64(size))
				if k := clients[i%len(clients)]; i%7 == 0 {
					if d := l.Allow(ctx, k); d.Allowed || d.Err != nil {
						t.Fatalf("%d, %v: %s is admitted again: %+v", size, a, k, d)
					}
				}
			}
			if grown, slack := heap()-before, int64(size/2+64<<10); grown > int64(size)+slack+int64(len(clients))*48 {
				t.Errorf("%d, %v: the heap grew by %d", size, a, grown)
			}
			for _, k := range clients {
				if d := l.Peek(ctx, k); d.Allowed || d.Err != nil || d.RetryAfter <= 0 {
					t.Fatalf("%d, %v: %s has its quota back: %+v", size, a, k, d)
				}
			}
		}
	}
}

// TestFloodWhenTheWindowIsOver: when the clients of a flood are at their limit no
// more, there is room for as many newcomers as the store has slots.
func TestFloodWhenTheWindowIsOver(t *testing.T) {
	for _, a := range algorithms {
		s, c := newStore(large)
		l := limiter(t, s, core.PerHour(1).Using(a))
		exhaust(l, c, large)
		c.Add(3 * time.Hour)
		newcomers, refused := fits(large)*6/10, 0 // as many as there are slots
		for i := range newcomers {
			if !l.Allow(ctx, key("later ", i)).Allowed {
				refused++ // by another's entry in a sketch: one in 100,000
			}
			bounded(t, s, large)
		}
		if refused > newcomers/1000 {
			t.Errorf("%v: %d of %d newcomers are refused after the window", a, refused, newcomers)
		}
	}
}

// TestBlockedAtItsCost: who is refused what it asks for is at its limit, though
// a request of cost 1 would pass.
func TestBlockedAtItsCost(t *testing.T) {
	for _, a := range algorithms {
		for _, limits := range [][]core.Limit{
			{core.PerHour(10).Using(a)},
			{core.PerHour(10).Using(a), core.PerDay(100).Using(a)},
			{core.PerHour(10_000_000_000).Using(core.SlidingCounter)},
		} {
			s, _ := newStore(memstore.MinMaxBytes)
			l := limiter(t, s, limits...)
			unit := limits[0].Requests / 10
			const blocked = 20
			for i := range blocked {
				l.AllowN(ctx, key("blocked ", i), 8*unit)
			}
			for i := range 5 * fits(memstore.MinMaxBytes) {
				l.AllowN(ctx, key("newcomer ", i), 8*unit)
				if d := l.AllowN(ctx, key("blocked ", i%blocked), 4*unit); d.Allowed || d.Err != nil {
					t.Fatalf("%v: a blocked client is let in beside newcomer %d: %+v", limits, i, d)
				}
			}
		}
	}
}

// TestChangedLimitWhenFull: a client at a limit that was lowered is refused, in its
// slot and in the sketch; one whose limit was raised has what is left.
func TestChangedLimitWhenFull(t *testing.T) {
	for _, a := range algorithms {
		s, _ := newStore(small)
		l, lowered := limiter(t, s, core.PerDay(100).Using(a)), limiter(t, s, core.PerDay(2).Using(a))
		const clients = 500
		for i := range clients {
			l.AllowN(ctx, key("k", i), 2)
		}
		for i := range 2 * fits(small) {
			l.AllowN(ctx, key("three of 100 ", i), 3)
			if i < clients {
				lowered.Peek(ctx, key("k", i))
			}
		}
		for i := range clients {
			if d := lowered.Peek(ctx, key("k", i)); d.Allowed {
				t.Fatalf("%v: client %d of a limit that was lowered has its quota back: %+v", a, i, d)
			}
			if d := l.Peek(ctx, key("k", i)); !d.Allowed || d.Remaining > 97 {
				t.Fatalf("%v: client %d with 2 of 100: %+v", a, i, d)
			}
		}
	}
}

// TestLargeLogsBesideSmallOnes: the bound is one of bytes, not of clients.
func TestLargeLogsBesideSmallOnes(t *testing.T) {
	const size = 4 << 20
	s, _ := newStore(size)
	before := heap()
	big := limiter(t, s, core.PerDay(100_000))
	few := core.Must(big.Rule("few", core.PerDay(100)))
	const clients, each = 5, 60_000
	for i := range each {
		for k := range clients {
			if d := big.Allow(ctx, key("big ", k)); !d.Allowed {
				t.Fatalf("request %d of client %d: %+v", i, k, d)
			}
		}
		if d := few.Allow(ctx, key("small ", i)); !d.Allowed {
			t.Fatalf("newcomer %d: %+v", i, d)
		}
		bounded(t, s, size)
	}
	for i := range 2 * fits(size) {
		if d := few.Allow(ctx, key("flood ", i)); !d.Allowed {
			t.Fatalf("newcomer %d: %+v", i, d)
		}
		bounded(t, s, size)
	}
	for k := range clients {
		if d := big.AllowN(ctx, key("big ", k), 0); d.Remaining != 100_000-each {
			t.Errorf("client %d: %d remain, want %d", k, d.Remaining, 100_000-each)
		}
	}
	if grown := heap() - before; grown > size+size/16 {
		t.Errorf("the heap grew by %d", grown)
	}
	runtime.KeepAlive(s)
}

// TestAllOrNothingWhenFull: a rule of several limits in a full store charges
// all of them or none.
func TestAllOrNothingWhenFull(t *testing.T) {
	for _, size := range []int{memstore.MinMaxBytes, 1 << 20} {
		s, _ := newTickingStore(int64(size))
		limits := []core.Limit{
			core.PerHour(4), core.PerHour(5).Using(core.SlidingCounter).Named("counter"), core.PerDay(9),
			core.PerDay(9).Using(core.SlidingCounter).Named("daily"), core.Per(1000, 48*time.Hour),
		}
		l := limiter(t, s, limits...)
		var alone []*core.Limiter // by each of the limits alone, on the same counts
		for _, limit := range limits {
			alone = append(alone, limiter(t, s, limit))
		}
		other := core.Must(l.Rule("other", core.PerDay(1)))
		left := func(k string) (left [5]int64) {
			for i, l := range alone {
				left[i] = l.AllowN(ctx, k, 0).Remaining
			}
			return left
		}
		rng := rand.New(rand.NewPCG(1, 1))
		refused, charged := 0, 0
		for i := range 8 * fits(size) {
			if i%3 == 0 { // others take the slots
				other.Allow(ctx, key("exhausted ", i))
				continue
			}
			k, n := key("k", rng.IntN(fits(size))), 1+rng.Int64N(3)
			if rng.IntN(30) == 0 {
				other.Reset(ctx, key("exhausted ", rng.IntN(i+1)))
			}
			before := left(k)
			d := l.AllowN(ctx, k, n)
			after := left(k)
			var want [5]int64
			for i := range before {
				if want[i] = before[i]; d.Allowed {
					want[i] -= n
				}
			}
			if after != want {
				t.Fatalf("%d, step %d, %+v: %v remained before, %v after, want %v", size, i, d, before, after, want)
			}
			if d.Allowed {
				charged++
			} else {
				refused++
			}
			bounded(t, s, int64(size))
		}
		if refused < 100 || charged < 100 {
			t.Errorf("%d: charged %d times, refused %d times", size, charged, refused)
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
				empty := s.Bytes()
				l := limiter(t, s, core.PerHour(100).Using(a))
				for i := range fits(size) {
					l.AllowN(ctx, key("k", i), 1+int64(i%3))
				}
				if s.Bytes() < int64(size)*8/10 {
					t.Fatalf("%d bytes of %d: not full", s.Bytes(), size)
				}
				c.Add(4 * time.Hour)
				for i := range 2 * fits(size) { // many clients, to come by every shard
					if k := key("later ", i%100); traffic == "looks" {
						l.Peek(ctx, k)
					} else if d := l.Allow(ctx, k); d.Err != nil {
						t.Fatal(d.Err)
					}
				}
				// A chunk of each shard stays, and the hundred with up to 100 stamps.
				shards := int64(max(1, size/(512<<10)))
				if most := empty + shards*8<<10 + 100*1300; s.Bytes() > most {
					t.Errorf("%v, %d, %s: %d bytes are left, want at most %d", a, size, traffic, s.Bytes(), most)
				}
			}
		}
	}
}

// TestResetGivesMemoryBack: nothing is left of clients who were reset.
func TestResetGivesMemoryBack(t *testing.T) {
	s := memstore.New(memstore.WithMaxBytes(large))
	empty := s.Bytes()
	l := limiter(t, s, core.PerDay(1000), core.PerHour(1000).Using(core.SlidingCounter))
	for i := range 50_000 {
		l.Allow(ctx, key("k", i%5000))
	}
	for i := range 5000 {
		if err := l.Reset(ctx, key("k", i)); err != nil {
			t.Fatal(err)
		}
	}
	if most := empty + 8*8<<10; s.Bytes() > most {
		t.Errorf("%d bytes are left of %d when empty", s.Bytes(), empty)
	}
	if d := l.AllowN(ctx, "k7", 0); d.Remaining != 1000 {
		t.Errorf("%+v", d)
	}
}

// TestConcurrentFlood floods, resets and asks from 16 goroutines in a store that is
// full, and holds a few clients against the promise of the log.
func TestConcurrentFlood(t *testing.T) {
	for _, size := range []int{memstore.MinMaxBytes, 2 << 20} {
		before := runtime.NumGoroutine()
		s, _ := newTickingStore(int64(size))
		limit := core.Per(20, 2*time.Millisecond) // a tick is a microsecond
		held := limiter(t, s, limit)
		counter := core.PerDay(1 << 30).Using(core.SlidingCounter).Named("c")
		flood := core.Must(held.Rule("flood", counter, core.PerDay(1_000_000)))
		blocked := core.Must(held.Rule("blocked", core.PerDay(1)))
		for i := range 50 {
			if d := blocked.Allow(ctx, key("blocked ", i)); !d.Allowed {
				t.Fatal(d)
			}
		}
		const goroutines, clients = 16, 3
		outcomes := make([][]storetest.Outcome, clients)
		var mu sync.Mutex
		var group sync.WaitGroup
		for g := range goroutines {
			group.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 1))
				own := make([][]storetest.Outcome, clients)
				for i := range 2500 {
					switch rng.IntN(8) {
					case 0, 1:
						k, n := rng.IntN(clients), 1+rng.Int64N(2)
						d := held.AllowN(ctx, key("held ", k), n)
						if d.Err != nil {
							t.Errorf("a client in the store: %v", d.Err)
							return
						}
						own[k] = append(own[k], storetest.Outcome{At: d.At, Allowed: d.Allowed, Cost: n})
					case 2:
						if err := flood.Reset(ctx, key("flood ", rng.IntN(10_000))); err != nil {
							t.Error(err)
						}
					case 3:
						flood.AllowN(ctx, key("heavy ", rng.IntN(4)), 1)
					case 4:
						if blocked.Allow(ctx, key("blocked ", rng.IntN(50))).Allowed {
							t.Error("a blocked client got in")
						}
					default:
						flood.Allow(ctx, key("flood ", g*2500+i))
					}
					if n := s.Bytes(); n > int64(size) {
						t.Errorf("%d bytes: the bound is %d", n, size)
						return
					}
				}
				mu.Lock()
				defer mu.Unlock()
				for k := range own {
					outcomes[k] = append(outcomes[k], own[k]...)
				}
			})
		}
		group.Wait()
		for k, o := range outcomes {
			slices.SortFunc(o, func(a, b storetest.Outcome) int { return a.At.Compare(b.At) })
			var admitted ledger
			for _, one := range o {
				if one.Allowed {
					admitted = append(admitted, admission{one.At.UnixMicro(), one.Cost})
					if err := admitted.check(limit); err != nil {
						t.Fatalf("%d: client %d: %v", size, k, err)
					}
					admitted = admitted.trim(one.At.UnixMicro(), limit)
				}
			}
			if len(o) < 1000 {
				t.Errorf("%d: client %d: only %d decisions", size, k, len(o))
			}
		}
		for i := 0; runtime.NumGoroutine() > before && i < 1_000_000; i++ {
			runtime.Gosched() // those that flooded are about to end
		}
		if after := runtime.NumGoroutine(); after > before {
			t.Errorf("%d: %d goroutines before, %d after", size, before, after)
		}
	}
}
