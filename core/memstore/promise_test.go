package memstore_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/model/statespace"
	"github.com/sashlimit/sash/core/memstore"
)

// flooder sends requests by many rules under names that nobody else uses, and holds every admission against the
// definition.
type flooder struct {
	rng     *rand.Rand
	rules   []*core.Limiter
	defined []statespace.Rule
	clients []map[string]statespace.Client // by rule and name
	names   []string
	refused int
}

func newFlooder(seed uint64, rules []*core.Limiter) *flooder {
	f := &flooder{rng: rand.New(rand.NewPCG(seed, 1)), rules: rules}
	for _, rule := range rules {
		var defined statespace.Rule
		for _, l := range rule.Limits() {
			defined.Limits = append(defined.Limits,
				statespace.Limit{N: l.Requests, W: l.Window.Microseconds(), Algorithm: l.Algorithm})
		}
		f.defined, f.clients = append(f.defined, defined), append(f.clients, map[string]statespace.Client{})
	}
	return f
}

// step sends a request or some, mostly under a fresh name.
func (f *flooder) step(fresh string) error {
	name := fresh
	if len(f.names) > 0 && f.rng.IntN(2) == 0 {
		name = f.names[f.rng.IntN(len(f.names))]
	} else {
		f.names = append(f.names, name)
	}
	i := f.rng.IntN(len(f.rules))
	switch f.rng.IntN(40) {
	case 0:
		delete(f.clients[i], name)
		return f.rules[i].Reset(ctx, name)
	case 1:
		f.rules[i].Peek(ctx, name)
	}
	requests := 1
	if f.rng.IntN(4) == 0 {
		requests = 12 // to the limit and beyond
	}
	for range requests {
		if err := f.take(i, name); err != nil {
			return fmt.Errorf("rule %d, %s: %w", i, name, err)
		}
	}
	return nil
}

func (f *flooder) take(i int, name string) error {
	cost := int64(1)
	if f.rng.IntN(4) == 0 {
		cost = f.rng.Int64N(4)
	}
	d := f.rules[i].AllowN(ctx, name, cost)
	switch {
	case d.Err != nil:
		return d.Err
	case !d.Allowed && (d.RetryAfter <= 0 || d.Remaining < 0):
		return fmt.Errorf("refused, with %+v", d)
	case !d.Allowed:
		f.refused++
		return nil
	}
	client := f.clients[i][name]
	if client == nil {
		client = make(statespace.Client, len(f.defined[i].Limits))
	}
	want, after, _ := f.defined[i].Ask(client, d.At.UnixMicro(), cost, statespace.Take)
	if !want.Admitted || d.Remaining > want.Remaining {
		return fmt.Errorf("admitted, with %+v, want %+v after %v", d, want, client)
	}
	f.clients[i][name] = after
	return nil
}

// ruleSets are rules over windows from the shortest to the longest.
func ruleSets(t testing.TB, s core.Store) []*core.Limiter {
	var rules []*core.Limiter
	for i, limits := range [][]core.Limit{
		{core.PerDay(3)},
		{core.PerSecond(1), core.PerMinute(2), core.PerHour(3), core.PerDay(4), core.Per(5, 48*time.Hour)},
		{core.PerHour(5).Using(core.SlidingCounter)},
		{core.Per(2, core.MinWindow)},
		{core.Per(4, 20*time.Millisecond).Using(core.SlidingCounter)},
		{core.Per(9, core.MaxWindow), core.PerSecond(4).Using(core.SlidingCounter), core.Per(3, 7*time.Millisecond)},
		{core.Per(100, core.MaxWindow).Using(core.SlidingCounter)},
		{core.Per(40, 1234567*time.Microsecond), core.PerDay(60)},
		{core.PerHour(5).Using(core.CoarseLog)},
		{core.Per(1<<40, time.Hour).Using(core.CoarseLog), core.Per(3, 20*time.Millisecond).Using(core.CoarseLog)},
		{core.PerDay(40).Using(core.CoarseLog), core.PerSecond(4).Using(core.SlidingCounter)},
		{core.Per(1<<40, time.Hour).Using(core.SlidingCounter), core.Per(1, 333*time.Millisecond)},
	} {
		l := limiter(t, s, limits...)
		rules = append(rules, core.Must(l.Rule(fmt.Sprint(i), limits...)))
	}
	return rules
}

var long = flag.Bool("long", false, "flood a larger store too")

// TestNobodyIsAdmittedAboveItsLimit floods stores with 20 times as many clients as
// fit, from 8 goroutines: fresh names, and names that come back until they are
// refused and after that. An exact model of every client checks every admission, and audits count all bytes anew.
func TestNobodyIsAdmittedAboveItsLimit(t *testing.T) {
	floodStores(t, memstore.MinMaxBytes)
	if *long {
		floodStores(t, 1<<20) // 20 s under the race detector
	}
}

// floodStores floods stores of some sizes.
func floodStores(t *testing.T, sizes ...int64) {
	const goroutines = 8
	for _, size := range sizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			s, c := newTickingStore(size)
			rules := ruleSets(t, s)
			steps := 20 * fits(int(size)) / goroutines * 2 // half of them are of fresh names
			refused := make([]int, goroutines)
			var group sync.WaitGroup
			var tables sync.RWMutex // an audit has the store for itself
			for g := range goroutines {
				group.Go(func() {
					f := newFlooder(uint64(g), rules)
					for i := range steps {
						if f.rng.IntN(2000) == 0 {
							c.Add(time.Duration(f.rng.Int64N(int64(time.Second) << f.rng.IntN(8))))
						}
						tables.RLock()
						err := f.step(key(fmt.Sprint(g, " "), i))
						tables.RUnlock()
						if i%500 == 0 {
							tables.Lock()
							s.Audit(t)
							tables.Unlock()
						}
						if n := s.Stats().Bytes; err != nil || n > size {
							t.Errorf("goroutine %d, step %d: %v; the store holds %d bytes of %d", g, i, err, n, size)
							return
						}
					}
					refused[g] = f.refused
				})
			}
			group.Wait()
			all := 0
			for g, n := range refused {
				if all += n; n < 100 {
					t.Errorf("goroutine %d was refused %d times", g, n)
				}
			}
			t.Logf("proved: %s bytes: %d goroutines, %d steps, %d refused", t.Name(), goroutines, steps*goroutines, all)
		})
	}
}
