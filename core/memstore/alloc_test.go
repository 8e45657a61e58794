//go:build !race && !short

package memstore_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// steady returns a limiter and clients whom it admits again and again, or refuses. Where they are admitted, the clock
// goes on with every look, and the windows are of four rounds.
func steady(t testing.TB, a core.Algorithm, limits, clients int, admitted bool) (*core.Limiter, []string) {
	s, _ := newStore(memstore.DefaultMaxBytes)
	requests, window, rounds := int64(1), time.Hour, 1
	if admitted {
		s, _ = newTickingStore(memstore.DefaultMaxBytes)
		requests, rounds = 5000, max(6, 5000/clients)
		window = max(time.Millisecond, time.Duration(4*clients)*time.Microsecond)
	}
	var ls []core.Limit
	for i := range limits {
		ls = append(ls, core.Per(requests, window+time.Duration(i)*time.Millisecond).Using(a).Named(fmt.Sprint(i)))
	}
	l := limiter(t, s, ls...)
	keys := make([]string, clients)
	for i := range rounds * clients {
		keys[i%clients] = key("client ", i%clients)
		if d := l.Allow(ctx, keys[i%clients]); !d.Allowed {
			t.Fatal(d)
		}
	}
	return l, keys
}

// mallocs is how many objects so many calls of f allocate together:
// testing.AllocsPerRun would round an allocation now and then down to none.
func mallocs(calls int, f func()) uint64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	f()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		f()
	}
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

// TestNoAllocations: a decision on a client who is known allocates nothing,
// nor does one that turns a new key away.
func TestNoAllocations(t *testing.T) {
	const calls, noise = 2000, 10 // the runtime's own
	for _, a := range algorithms {
		for _, c := range []struct{ limits, clients int }{{1, 1}, {3, 1}, {1, 100_000}, {3, 10_000}} {
			for _, admitted := range []bool{true, false} {
				l, keys := steady(t, a, c.limits, c.clients, admitted)
				name := fmt.Sprintf("%v, %d limits, %d clients, admitted %v", a, c.limits, c.clients, admitted)
				i := 0
				if n := mallocs(calls, func() {
					if d := l.Allow(ctx, keys[i%len(keys)]); d.Allowed != admitted || d.Err != nil {
						t.Fatalf("%s: %+v", name, d)
					}
					i++
				}); n > noise {
					t.Errorf("%s: %d allocations in %d calls", name, n, calls)
				}
				if n := mallocs(calls, func() {
					l.Peek(ctx, keys[i%len(keys)])
					l.AllowN(ctx, keys[i%len(keys)], 0)
					l.Peek(ctx, "a stranger")
					i++
				}); n > noise+calls/50 { // rings that have grown too long are made shorter
					t.Errorf("%s: %d allocations to look %d times", name, n, calls)
				}
			}
		}
		s, c := newStore(small)
		l := limiter(t, s, core.PerDay(1).Using(a))
		for i := range 30 * fits(small) {
			l.Allow(ctx, key("exhausted ", i%(3*fits(small))))
			c.Add(time.Millisecond)
		}
		newKeys := make([]string, 2*calls)
		for i := range newKeys {
			newKeys[i] = key("new key ", i)
		}
		i, refused := 0, 0
		if n := mallocs(calls, func() {
			if !l.Allow(ctx, newKeys[i]).Allowed {
				refused++
			}
			i++
		}); n > noise || refused < calls/10 {
			t.Errorf("%v: %d allocations for %d newKeys of whom %d were refused", a, n, calls, refused)
		}
	}
}
