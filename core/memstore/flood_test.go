package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
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
// not given up for those who have used a hundredth.
func TestFloodOfFreshKeys(t *testing.T) {
	for _, size := range []int{small, large} {
		for _, a := range algorithms {
			before := heap()
			c := newClock()
			s := memstore.New(memstore.WithMaxBytes(int64(size)), memstore.WithClock(c.Now))
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
				t.Errorf("%d, %v: %d of %d clients at half their limit were given up", size, a, lost, halves)
			}
		}
	}
}

// exhaust fills a store with clients at their limit of 1, a millisecond apart,
// until hardly anybody gets in, and returns them in the order they came.
func exhaust(l *core.Limiter, c *clock, size int) (clients []string, last core.Decision) {
	for i := range 3 * fits(size) {
		k := key("exhausted ", i)
		if d := l.Allow(ctx, k); d.Allowed {
			clients = append(clients, k)
		} else {
			last = d
		}
		c.Add(time.Millisecond)
	}
	return clients, last
}

// TestFloodOfExhaustedKeys fills the store with clients at their limit. No
// flood buys one of them its quota back; newcomers get the policy, and the
// observer hears of it.
func TestFloodOfExhaustedKeys(t *testing.T) {
	for _, size := range []int{small, large} {
		for _, a := range algorithms {
			before := heap()
			c := newClock()
			s := memstore.New(memstore.WithMaxBytes(int64(size)), memstore.WithClock(c.Now))
			var heard atomic.Int64
			closed, err := core.New(core.Config{
				Store: s, Limits: []core.Limit{core.PerDay(1).Using(a)}, OnStoreError: core.FailClosed,
				Observer: core.ObserverFunc(func(_ context.Context, e core.Event) {
					if errors.Is(e.Decision.Err, core.ErrStoreFull) {
						heard.Add(1)
					}
				}),
			})
			if err != nil {
				t.Fatal(err)
			}
			open := closed.WithPolicy(core.FailOpen)
			clients, last := exhaust(closed, c, size)
			if len(clients) < size/200 || !errors.Is(last.Err, core.ErrStoreFull) || !errors.Is(last.Err, core.ErrStore) {
				t.Fatalf("%d, %v: %d clients, then %+v", size, a, len(clients), last)
			}
			heard.Store(0)
			refused := int64(0)
			for i := range 10 * fits(size) {
				l := closed
				if i%2 == 0 {
					l = open
				}
				d := l.Allow(ctx, key("newcomer ", i))
				switch {
				case d.Err == nil && d.Allowed:
					clients = append(clients, key("newcomer ", i)) // there was a slot left in his shard
				case !errors.Is(d.Err, core.ErrStoreFull) || d.Allowed != (l == open):
					t.Fatalf("%d, %v: newcomer %d: %+v", size, a, i, d)
				default:
					refused++
				}
				bounded(t, s, int64(size))
				if k := clients[i%len(clients)]; i%7 == 0 {
					if d := closed.Allow(ctx, k); d.Allowed || d.Err != nil {
						t.Fatalf("%d, %v: a blocked client got in: %+v", size, a, d)
					}
				}
			}
			if refused < int64(9*fits(size)) || heard.Load() != refused {
				t.Errorf("%d, %v: %d newcomers were turned away, the observer heard of %d", size, a, refused, heard.Load())
			}
			if grown, slack := heap()-before, int64(size/2+64<<10); grown > int64(size)+slack {
				t.Errorf("%d, %v: the heap grew by %d", size, a, grown) // clients is in it
			}
			first := time.Duration(1<<63 - 1)
			for _, k := range clients {
				d := closed.Peek(ctx, k)
				if d.Allowed || d.Err != nil {
					t.Fatalf("%d, %v: a blocked client has its quota back: %+v", size, a, d)
				}
				first = min(first, d.RetryAfter)
			}

			// Until the first of them may come again nobody else fits; from then
			// on somebody does.
			if size > small {
				continue // in which shard is not known
			}
			c.Add(first - time.Microsecond)
			if d := closed.Allow(ctx, "too early"); !errors.Is(d.Err, core.ErrStoreFull) {
				t.Errorf("%v: 1 us before there is room: %+v", a, d)
			}
			c.Add(time.Microsecond)
			if d := closed.Allow(ctx, "in time"); !d.Allowed || d.Err != nil {
				t.Errorf("%v: when the first may go: %+v", a, d)
			}
		}
	}
}

// TestFloodWhenTheWindowIsOver: those who are at their limit no more make room.
func TestFloodWhenTheWindowIsOver(t *testing.T) {
	for _, a := range algorithms {
		c := newClock()
		s := memstore.New(memstore.WithMaxBytes(large), memstore.WithClock(c.Now))
		l := limiter(t, s, core.PerHour(1).Using(a))
		clients, _ := exhaust(l, c, large)
		c.Add(2 * time.Hour)
		for i := range len(clients) * 9 / 10 { // shards do not fill up evenly
			if d := l.Allow(ctx, key("later ", i)); !d.Allowed {
				t.Fatalf("%v: newcomer %d of %d: %+v", a, i, len(clients), d)
			}
			bounded(t, s, large)
		}
	}
}

// TestNewcomersAfterReset: a shard that had nothing to give has something again
// when newcomers took the place of those who were reset.
func TestNewcomersAfterReset(t *testing.T) {
	for _, a := range algorithms {
		c := newClock()
		s := memstore.New(memstore.WithMaxBytes(small), memstore.WithClock(c.Now))
		l := limiter(t, s, core.PerDay(2).Using(a))
		var clients []string
		for i := range 2 * fits(small) {
			k := key("exhausted ", i)
			if d := l.AllowN(ctx, k, 2); d.Allowed {
				clients = append(clients, k)
			}
			c.Add(time.Millisecond)
		}
		for _, k := range clients[:len(clients)/2] {
			if err := l.Reset(ctx, k); err != nil {
				t.Fatal(err)
			}
		}
		for i := range len(clients) * 3 { // with one of two requests, each may go
			if d := l.Allow(ctx, key("newcomer ", i)); !d.Allowed {
				t.Fatalf("%v: newcomer %d beside %d who may go: %+v", a, i, min(i, len(clients)/2), d)
			}
		}
		for _, k := range clients[len(clients)/2:] {
			if l.Peek(ctx, k).Allowed {
				t.Fatalf("%v: a blocked client has its quota back", a)
			}
		}
	}
}

// twoAfterAll is a store full of clients at a limit of one a day, which has found out
// that nobody may go, and then two newcomers under another limit in places that were
// free; and a rule that takes two places.
func twoAfterAll(t *testing.T, newcomers core.Limit) (c *clock, two *core.Limiter) {
	t.Helper()
	a := newcomers.Algorithm
	c = newClock()
	s := memstore.New(memstore.WithMaxBytes(memstore.MinMaxBytes), memstore.WithClock(c.Now))
	one := limiter(t, s, core.PerDay(1).Using(a))
	another := core.Must(one.Rule("another", newcomers))
	two = core.Must(one.Rule("two", core.PerDay(1).Using(a), core.PerHour(1).Using(a)))
	three := core.Must(one.Rule("three", core.PerDay(1).Using(a), core.PerHour(1).Using(a), core.PerMinute(1).Using(a)))
	clients, _ := exhaust(one, c, memstore.MinMaxBytes)
	for _, k := range clients[:2] {
		if err := one.Reset(ctx, k); err != nil {
			t.Fatal(err)
		}
	}
	if d := three.Allow(ctx, "three"); !errors.Is(d.Err, core.ErrStoreFull) {
		t.Fatalf("%v: three places of two: %+v", a, d)
	}
	for _, k := range clients[:2] {
		if d := another.Allow(ctx, k); !d.Allowed {
			t.Fatalf("%v: a place of two: %+v", a, d)
		}
	}
	return c, two
}

// TestNewcomersWhoMayGo: a store that had nothing to give has something again
// when newcomers found what was free.
func TestNewcomersWhoMayGo(t *testing.T) {
	for _, a := range algorithms {
		_, two := twoAfterAll(t, core.PerDay(100).Using(a))
		if d := two.Allow(ctx, "two"); !d.Allowed {
			t.Errorf("%v: beside two who may go: %+v", a, d)
		}
		if d := two.Allow(ctx, "two more"); !errors.Is(d.Err, core.ErrStoreFull) {
			t.Errorf("%v: beside nobody who may go: %+v", a, d)
		}
	}
}

// TestNewcomersWhoLeaveSoon: who came after it was known that nobody may go for
// long may go before that.
func TestNewcomersWhoLeaveSoon(t *testing.T) {
	for _, a := range algorithms {
		c, two := twoAfterAll(t, core.PerMinute(1).Using(a))
		c.Add(2 * time.Minute)
		if d := two.Allow(ctx, "two"); !d.Allowed {
			t.Errorf("%v: beside two who have expired: %+v", a, d)
		}
	}
}

// TestBlockedAtALesserCost: who is refused less than before may go sooner.
func TestBlockedAtALesserCost(t *testing.T) {
	for _, a := range algorithms {
		for _, also := range [][]core.Limit{nil, {core.PerHour(1000)}} {
			c := newClock()
			s := memstore.New(memstore.WithMaxBytes(memstore.MinMaxBytes), memstore.WithClock(c.Now))
			one := limiter(t, s, core.Per(1, 100*24*time.Hour))
			l := core.Must(one.Rule("costs", append(also, core.PerDay(10).Using(a))...))
			l.AllowN(ctx, "k", 1)
			c.Add(12 * time.Hour)
			l.AllowN(ctx, "k", 8)
			l.AllowN(ctx, "k", 10)
			exhaust(one, c, memstore.MinMaxBytes) // k may go when it may have 10
			c.Add(l.AllowN(ctx, "k", 2).RetryAfter)
			if d := one.Allow(ctx, "newcomer"); !d.Allowed {
				t.Errorf("%v: beside a client who may have what it wanted last: %+v", a, d)
			}
		}
	}
}

// TestFirstToLeaveIsKnown: resets move slots about; a shard full of clients at
// their limit still knows who may go first.
func TestFirstToLeaveIsKnown(t *testing.T) {
	for _, a := range algorithms {
		c := newClock()
		s := memstore.New(memstore.WithMaxBytes(small), memstore.WithClock(c.Now))
		l := limiter(t, s, core.Per(1, 48*time.Hour).Using(a))
		hourly := core.Must(l.Rule("hourly", core.PerHour(1).Using(a)))
		clients, _ := exhaust(l, c, small)
		swap := func(i int, by *core.Limiter, k string) {
			t.Helper()
			if err := l.Reset(ctx, clients[i]); err != nil {
				t.Fatal(err)
			}
			if d := by.Allow(ctx, k); !d.Allowed {
				t.Fatalf("%v: a reset made no room: %+v", a, d)
			}
			if d := l.Allow(ctx, "turned away"); !errors.Is(d.Err, core.ErrStoreFull) {
				t.Fatalf("%v: %+v", a, d)
			}
		}
		swap(len(clients)/2, hourly, "first to leave") // in the last slot
		swap(len(clients)/3, l, "later")               // which has moved
		d := hourly.Peek(ctx, "first to leave")
		c.Add(d.RetryAfter - time.Microsecond)
		if d := l.Allow(ctx, "too early"); !errors.Is(d.Err, core.ErrStoreFull) {
			t.Errorf("%v: before the first may go: %+v", a, d)
		}
		c.Add(time.Microsecond)
		if d := l.Allow(ctx, "in time"); !d.Allowed {
			t.Errorf("%v: when the first may go: %+v", a, d)
		}
	}
}

// TestOwnCountsStayInTurn: a client who could take nobody's place but its own
// leaves its counts, however many, for others to take the place of.
func TestOwnCountsStayInTurn(t *testing.T) {
	const own = 14
	c := newClock()
	s := memstore.New(memstore.WithMaxBytes(memstore.MinMaxBytes), memstore.WithClock(c.Now))
	l := limiter(t, s, core.PerDay(1).Using(core.SlidingCounter))
	clients, _ := exhaust(l, c, memstore.MinMaxBytes)
	for _, k := range clients[:own] {
		if err := l.Reset(ctx, k); err != nil {
			t.Fatal(err)
		}
	}
	for i := range own + 1 {
		rule := core.Must(l.Rule(key("rule ", i), core.PerDay(100).Using(core.SlidingCounter)))
		if d := rule.Allow(ctx, "client"); d.Allowed != (i < own) {
			t.Fatalf("rule %d in %d places: %+v", i, own, d)
		}
	}
	for i := range own + 1 {
		if d := l.Allow(ctx, key("newcomer ", i)); d.Allowed != (i < own) {
			t.Fatalf("newcomer %d beside %d counts that may go: %+v", i, own, d)
		}
	}
}

// TestOwnPlaceIsForOthers: that a client finds nobody to take the place of but
// itself turns nobody away who may take its place.
func TestOwnPlaceIsForOthers(t *testing.T) {
	const size = 1 << 20
	for range 12 { // whether the newcomer is in the client's shard is left to chance
		c := newClock()
		s := memstore.New(memstore.WithMaxBytes(size), memstore.WithClock(c.Now))
		big := limiter(t, s, core.PerDay(100_000))
		one := core.Must(big.Rule("one", core.PerDay(1)))
		for range 20_000 {
			big.Allow(ctx, "big")
		}
		for i := 0; s.Bytes() < size-6000; i++ {
			one.Allow(ctx, key("exhausted ", i))
		}
		for big.Allow(ctx, "big").Err == nil {
		}
		for i := 0; big.AllowN(ctx, "big", 0).Remaining < 100_000; i++ {
			if d := one.Allow(ctx, key("newcomer ", i)); d.Err != nil {
				t.Fatalf("newcomer %d, beside a client who has used a fifth: %+v", i, d)
			}
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
			c := newClock()
			s := memstore.New(memstore.WithMaxBytes(memstore.MinMaxBytes), memstore.WithClock(c.Now))
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
			// When what it wants is to be had, it may go.
			d := l.AllowN(ctx, "blocked 0", 4*unit)
			c.Add(d.RetryAfter)
			for i := range 5 * fits(memstore.MinMaxBytes) {
				if d := l.AllowN(ctx, key("later ", i), unit); !d.Allowed {
					t.Fatalf("%v: newcomer %d: %+v", limits, i, d)
				}
			}
		}
	}
}

// TestChangedLimitWhenFull: who was at a limit that is raised may go; who is at
// one that was lowered may not.
func TestChangedLimitWhenFull(t *testing.T) {
	for _, a := range algorithms {
		c := newClock()
		s := memstore.New(memstore.WithMaxBytes(small), memstore.WithClock(c.Now))
		clients, _ := exhaust(limiter(t, s, core.PerDay(1).Using(a)), c, small)
		l := limiter(t, s, core.PerDay(100).Using(a)) // on the same counts
		for _, k := range clients {
			l.Peek(ctx, k)
		}
		for i := range 2 * len(clients) {
			if d := l.Allow(ctx, key("newcomer ", i)); !d.Allowed {
				t.Fatalf("%v: newcomer %d beside clients whose limit was raised: %+v", a, i, d)
			}
		}

		s = memstore.New(memstore.WithMaxBytes(small), memstore.WithClock(c.Now))
		l, lowered := limiter(t, s, core.PerDay(100).Using(a)), limiter(t, s, core.PerDay(2).Using(a))
		for i := range 500 {
			l.AllowN(ctx, key("k", i), 2)
		}
		for i := range 2 * fits(small) {
			l.AllowN(ctx, key("three of 100 ", i), 3) // the list is made, with those of two on top
			if i < 500 {
				lowered.Peek(ctx, key("k", i))
			}
		}
		for i := range 500 {
			if d := lowered.Peek(ctx, key("k", i)); d.Allowed {
				t.Fatalf("%v: client %d of a limit that was lowered has its quota back: %+v", a, i, d)
			}
		}
	}
}

// TestLeastUsedGoesFirst: who has used more since the shard last looked is not
// given up while others have used less.
func TestLeastUsedGoesFirst(t *testing.T) {
	for _, a := range algorithms {
		c := newClock()
		s := memstore.New(memstore.WithMaxBytes(small), memstore.WithClock(c.Now))
		l := limiter(t, s, core.PerDay(100).Using(a))
		for i := range 2 * fits(small) {
			l.Allow(ctx, key("first ", i)) // the list is made among these
		}
		var there []int
		for i := range 2 * fits(small) {
			if l.AllowN(ctx, key("first ", i), 0).Remaining == 99 {
				there = append(there, i)
			}
		}
		// A random half of them, so half of those on the list, goes on to 50.
		rng := rand.New(rand.NewPCG(1, 1))
		rng.Shuffle(len(there), func(i, j int) { there[i], there[j] = there[j], there[i] })
		half := len(there) / 2
		for _, i := range there[:half] {
			l.AllowN(ctx, key("first ", i), 48) // makes no log longer than two pairs
		}
		// Newcomers who use 80 each: there are many others with 1.
		for i := range half / 4 {
			k := key("heavy ", i)
			if d := l.Allow(ctx, k); !d.Allowed {
				t.Fatalf("%v: newcomer %d: %+v", a, i, d)
			}
			l.AllowN(ctx, k, 79)
		}
		lost := 0
		for _, i := range there[:half] {
			if l.AllowN(ctx, key("first ", i), 0).Remaining > 60 {
				lost++
			}
		}
		left := 0
		for _, i := range there[half:] {
			if l.AllowN(ctx, key("first ", i), 0).Remaining == 99 {
				left++
			}
		}
		if lost > 0 && left > 0 {
			t.Errorf("%v: %d of %d clients at half their limit were given up while %d with one request stayed", a, lost, half, left)
		}
	}
}

// TestLargeLogsBesideSmallOnes: the bound is one of bytes, not of clients.
func TestLargeLogsBesideSmallOnes(t *testing.T) {
	const size = 4 << 20
	c := newClock()
	s := memstore.New(memstore.WithMaxBytes(size), memstore.WithClock(c.Now))
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

// TestOneLogBeyondTheBound: a client whose log alone is more than fits is
// turned away when the store is full; what was counted stays.
func TestOneLogBeyondTheBound(t *testing.T) {
	for _, cost := range []int64{1, 2} {
		c := newClock()
		s := memstore.New(memstore.WithMaxBytes(memstore.MinMaxBytes), memstore.WithClock(c.Tick))
		l := limiter(t, s, core.PerDay(core.MaxLogRequests))
		for i := range 100 {
			l.Allow(ctx, key("beside ", i))
		}
		counted, refused := int64(0), 0
		for range 20_000 {
			d := l.AllowN(ctx, "k", cost)
			switch {
			case d.Err == nil && d.Allowed:
				counted += cost
			case !errors.Is(d.Err, core.ErrStoreFull) || d.Allowed:
				t.Fatalf("cost %d: %+v", cost, d)
			default:
				refused++
			}
			bounded(t, s, memstore.MinMaxBytes)
			if d := l.AllowN(ctx, "k", 0); d.Remaining != core.MaxLogRequests-counted || d.Err != nil {
				t.Fatalf("cost %d: %d were counted, %d remain: %v", cost, counted, d.Remaining, d.Err)
			}
		}
		// With growth by a quarter, copied, at least a third of the store is used.
		if counted < memstore.MinMaxBytes/8/3 || refused == 0 {
			t.Errorf("cost %d: %d were counted, %d turned away", cost, counted, refused)
		}
		if err := l.Reset(ctx, "k"); err != nil {
			t.Fatal(err)
		}
		if d := l.Allow(ctx, "k"); d.Remaining != core.MaxLogRequests-1 || s.Bytes() > 20<<10 {
			t.Errorf("cost %d: after the reset %d bytes, %+v", cost, s.Bytes(), d)
		}
	}
}

// TestNothingIsGivenUpInVain: a client whose log cannot grow any more, in a store
// that holds little else, or clients at their limit, or logs of its own by other
// rules, gets nobody given up: or every limit beside it would be void.
func TestNothingIsGivenUpInVain(t *testing.T) {
	for _, size := range []int{small, large} {
		for _, beside := range []string{"nothing", "clients at their limit", "its own"} {
			c := newClock()
			s := memstore.New(memstore.WithMaxBytes(int64(size)), memstore.WithClock(c.Now))
			login := limiter(t, s, core.Per(5, 15*time.Minute))
			big := core.Must(login.Rule("big", core.PerHour(1_000_000)))
			const clients = 50
			for i := range clients {
				login.AllowN(ctx, key("client ", i), 4)
			}
			switch beside {
			case "clients at their limit":
				one := core.Must(login.Rule("one", core.PerHour(1)))
				for i := 0; s.Bytes() < int64(size)*3/4; i++ {
					one.Allow(ctx, key("exhausted ", i))
				}
			case "its own":
				other := core.Must(login.Rule("other", core.PerHour(1_000_000)))
				for s.Bytes() < int64(size)*3/8 {
					other.Allow(ctx, "big")
				}
			}
			for big.Allow(ctx, "big").Err == nil {
			}
			for i := range clients { // the last time that it grew may have taken some
				login.AllowN(ctx, key("client ", i), 4)
			}
			for i := range 5 * clients {
				c.Add(time.Second) // what was known before is looked at anew
				if d := big.Allow(ctx, "big"); !errors.Is(d.Err, core.ErrStoreFull) {
					t.Fatalf("%d, beside %s: %+v", size, beside, d)
				}
				if d := login.AllowN(ctx, key("client ", i%clients), 4); d.Allowed || d.Err != nil {
					t.Fatalf("%d, beside %s: a client has its quota back: %+v", size, beside, d)
				}
			}
			bounded(t, s, int64(size))
		}
	}
}

// TestAllOrNothingWhenFull: a rule of several limits in a full store charges
// all of them or none.
func TestAllOrNothingWhenFull(t *testing.T) {
	for _, size := range []int{memstore.MinMaxBytes, 1 << 20} {
		c := newClock()
		s := memstore.New(memstore.WithMaxBytes(int64(size)), memstore.WithClock(c.Tick))
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
		full, charged := 0, 0
		for i := range 8 * fits(size) {
			if i%3 == 0 { // who is at the limit, and cannot be given up
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
			} else if errors.Is(d.Err, core.ErrStoreFull) {
				full++
			}
			bounded(t, s, int64(size))
		}
		if full < 100 || charged < 100 {
			t.Errorf("%d: charged %d times, full %d times", size, charged, full)
		}
	}
}

// TestExpiryGivesMemoryBack: when everything has expired, some traffic on one
// client, or only looks, free all of it.
func TestExpiryGivesMemoryBack(t *testing.T) {
	for _, a := range algorithms {
		for _, size := range []int{small, large} {
			for _, traffic := range []string{"requests", "looks"} {
				c := newClock()
				s := memstore.New(memstore.WithMaxBytes(int64(size)), memstore.WithClock(c.Now))
				empty := s.Bytes()
				l := limiter(t, s, core.PerHour(100).Using(a))
				for i := range fits(size) {
					l.AllowN(ctx, key("k", i), 1+int64(i%3))
				}
				if s.Bytes() < int64(size)*9/10 {
					t.Fatalf("%d bytes of %d: not full", s.Bytes(), size)
				}
				c.Add(2 * time.Hour)
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

// TestConcurrentFlood floods, resets and asks from 16 goroutines in a store
// that is full, and holds a few clients against the promise of the log. They
// have always used more of their limit than the flood has of its own, so they
// are never given up.
func TestConcurrentFlood(t *testing.T) {
	for _, size := range []int{memstore.MinMaxBytes, 2 << 20} {
		before := runtime.NumGoroutine()
		c := newClock()
		s := memstore.New(memstore.WithMaxBytes(int64(size)), memstore.WithClock(c.Tick))
		limit := core.Per(20, 2*time.Millisecond) // a tick is a microsecond
		held := limiter(t, s, limit)
		flood := core.Must(held.Rule("flood", core.PerDay(1<<30).Using(core.SlidingCounter).Named("c"), core.PerDay(1_000_000)))
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
			if err := storetest.CheckLogs(o, limit); err != nil {
				t.Errorf("%d: client %d: %v", size, k, err)
			}
			if len(o) < 1000 {
				t.Errorf("%d: client %d: only %d decisions", size, k, len(o))
			}
		}
		if after := runtime.NumGoroutine(); after > before {
			t.Errorf("%d goroutines before, %d after: %s", before, after, fmt.Sprint(size))
		}
	}
}
