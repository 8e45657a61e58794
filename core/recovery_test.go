package core_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/model"
	"github.com/sashlimit/sash/core/memstore"
)

// flaky is a store that can be down, or so slow that it counts and answers too
// late.
type flaky struct {
	core.Store
	down, slow atomic.Bool
	asked      atomic.Int64
}

func newFlaky() *flaky { return &flaky{Store: memory()} }

func memory() *memstore.Store { return memstore.New(memstore.WithMaxBytes(1 << 20)) }

func (f *flaky) Bind(rule core.Rule) (core.Counts, error) {
	counts, err := f.Store.Bind(rule)
	return flakyCounts{counts, f}, err
}

type flakyCounts struct {
	core.Counts
	store *flaky
}

func (c flakyCounts) Take(ctx context.Context, ask core.Ask) (core.Decision, error) {
	c.store.asked.Add(1)
	if c.store.down.Load() {
		return core.Decision{}, errDown
	}
	d, err := c.Counts.Take(ctx, ask)
	if c.store.slow.Load() {
		ctx, cancel := ask.Context(ctx)
		defer cancel()
		<-ctx.Done()
		return core.Decision{}, ctx.Err()
	}
	return d, err
}

func (c flakyCounts) Usage(ctx context.Context, key string) ([]core.Use, error) {
	if c.store.down.Load() {
		return nil, errDown
	}
	return c.Counts.Usage(ctx, key)
}

func (c flakyCounts) Return(ctx context.Context, back core.Back) (int64, error) {
	if c.store.down.Load() {
		return 0, errDown
	}
	return c.Counts.Return(ctx, back)
}

func (c flakyCounts) Reset(ctx context.Context, key string) error {
	if c.store.down.Load() {
		return errDown
	}
	return c.Counts.Reset(ctx, key)
}

// recovering returns a limiter with a fallback that four replicas share, and its
// store.
func recovering(t *testing.T, limits ...core.Limit) (*core.Limiter, *flaky) {
	t.Helper()
	store := newFlaky()
	policy := core.Fallback(memory(), core.Share(4))
	return limiter(t, core.Config{Store: store, Limits: limits, OnStoreError: policy}), store
}

// TestErrWhileDown: each decision without the store has an Err, refusals included.
func TestErrWhileDown(t *testing.T) {
	l := limiter(t, core.Config{Store: &fake{answer: fails(errDown)}, OnStoreError: core.Fallback(memstore.New())})
	for i := range 6 {
		for what, d := range map[string]core.Decision{
			"cost 0": l.AllowN(ctx, "k", 0), "peek": l.Peek(ctx, "k"),
			"allow": l.Allow(ctx, "k"), "above": l.AllowN(ctx, "k", 4),
		} {
			if !errors.Is(d.Err, core.ErrStore) || !errors.Is(d.Err, errDown) {
				t.Errorf("request %d, %s: allowed %v with the error %v", i, what, d.Allowed, d.Err)
			}
		}
	}
}

// TestErrOnceUp: what the fallback counts refuses a request without an error, and
// without a line in the log, since the store has answered.
func TestErrOnceUp(t *testing.T) {
	store := newFlaky()
	var log bytes.Buffer
	l := limiter(t, core.Config{
		Store: store, OnStoreError: core.Fallback(memstore.New()),
		Observer: core.LogErrors(slog.New(slog.NewTextHandler(&log, nil)), 0),
	})
	store.down.Store(true)
	for range 4 {
		l.Allow(ctx, "k")
	}
	if n := strings.Count(log.String(), "\n"); n != 4 {
		t.Errorf("%d lines for 4 decisions without the store", n)
	}
	log.Reset()
	store.down.Store(false)
	for what, d := range map[string]core.Decision{"allow": l.Allow(ctx, "k"), "peek": l.Peek(ctx, "k")} {
		if d.Allowed || d.Err != nil || d.Remaining != 0 || d.Limit != l.Limits()[0] || d.RetryAfter <= 0 {
			t.Errorf("%s: %+v, want a refusal with the limiter's own limit and no error", what, d)
		}
	}
	if d := l.AllowN(ctx, "k", 0); !d.Allowed || d.Err != nil || d.Remaining != 0 {
		t.Errorf("cost 0: %+v", d)
	}
	if log.Len() > 0 {
		t.Errorf("in the log: %s", log.String())
	}
}

// TestOneFailure: one request that the fallback admitted costs its client the share
// of each replica, until it leaves the window, and other clients nothing.
func TestOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := recovering(t, core.PerHour(100))
		store.down.Store(true)
		if d := l.Allow(ctx, "k"); !d.Allowed || !errors.Is(d.Err, core.ErrStore) {
			t.Fatalf("while down: %+v", d)
		}
		store.down.Store(false)
		asked := store.asked.Load()
		time.Sleep(time.Minute)
		for client, want := range map[string]int64{"k": 96, "other": 100} {
			for i := range want {
				if d := l.Allow(ctx, client); !d.Allowed || d.Err != nil || d.Remaining != want-1-i ||
					d.Limit.Requests != 100 {
					t.Fatalf("%s, request %d: %+v", client, i, d)
				}
			}
			if d := l.Allow(ctx, client); d.Allowed || d.Err != nil || d.RetryAfter != time.Hour || d.Remaining != 0 {
				t.Fatalf("%s, one more: %+v", client, d)
			}
		}
		if d := l.Allow(ctx, "third"); !d.Allowed || d.Remaining != 99 || d.ResetAfter != time.Hour {
			t.Errorf("a third client: %+v", d)
		}
		if n := store.asked.Load() - asked; n != 199 {
			t.Errorf("the store was asked %d times for 199 requests", n)
		}
		time.Sleep(59 * time.Minute)
		if d := l.AllowN(ctx, "k", 0); d.Remaining != 4 {
			t.Errorf("once the request of the outage is an hour old: %+v", d)
		}
	})
}

// TestWholeShare: a client that used all of its share waits until enough of its
// units have left, is told how long, and costs the store nothing meanwhile.
func TestWholeShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := recovering(t, core.PerHour(100))
		l.AllowN(ctx, "k", 2)
		store.down.Store(true)
		for range 25 {
			time.Sleep(time.Minute)
			if !l.Allow(ctx, "k").Allowed {
				t.Fatal("the share is less than 25")
			}
		}
		store.down.Store(false)
		time.Sleep(time.Minute)
		for range 3 {
			// The first of the 25 units is 25 minutes old. Once it has left, 4 units remain
			// to all replicas.
			d := l.AllowN(ctx, "k", 3)
			refused := !d.Allowed && d.Err == nil && d.Remaining == 0
			if !refused || d.RetryAfter != 35*time.Minute || d.ResetAfter != 34*time.Minute {
				t.Fatalf("%+v", d)
			}
		}
		// For a cost of 8 beside the 2 units in the store, three of the 25 units must
		// leave, or the 2 and two of the 25.
		if d := l.AllowN(ctx, "k", 8); d.Allowed || d.RetryAfter != 36*time.Minute {
			t.Errorf("a cost of 8: %+v", d)
		}
		if d := l.AllowN(ctx, "k", 101); d.Allowed || d.RetryAfter != core.Never {
			t.Errorf("above the limit: %+v", d)
		}
		time.Sleep(35*time.Minute - time.Microsecond)
		if d := l.AllowN(ctx, "k", 3); d.Allowed {
			t.Errorf("too early: %+v", d)
		}
		time.Sleep(time.Microsecond)
		if d := l.AllowN(ctx, "k", 3); !d.Allowed || d.Remaining != 1 || d.ResetAfter != time.Minute {
			t.Errorf("in time: %+v", d)
		}
	})
}

// TestRecoveryOfBoth: where the store's own counts refuse for longer than the
// fallback's, the client is told the store's time.
func TestRecoveryOfBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := recovering(t, core.PerHour(100))
		store.down.Store(true)
		l.AllowN(ctx, "k", 25)
		store.down.Store(false)
		time.Sleep(30 * time.Minute)
		other := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerHour(100)}})
		other.AllowN(ctx, "k", 98)
		if d := l.AllowN(ctx, "k", 5); d.Allowed || d.RetryAfter != time.Hour {
			t.Errorf("%+v, want the hour of the store's 98, not the 30 minutes of the fallback", d)
		}
	})
}

// TestRecoveryOfSeveral: where the store refuses by both limits, and the fallback by
// one of them for longer, this limit binds, with its own ResetAfter and no Remaining of the other.
func TestRecoveryOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := recovering(t, core.PerMinute(9), core.PerHour(30))
		l.AllowN(ctx, "k", 3)
		time.Sleep(54 * time.Minute)
		store.down.Store(true)
		for range 3 {
			time.Sleep(time.Minute)
			l.AllowN(ctx, "k", 2)
		}
		store.down.Store(false)
		time.Sleep(2*time.Minute + 50*time.Second)
		// Of the hourly limit, 4 * 6 units are kept back, and 3 are counted.
		if d := l.AllowN(ctx, "k", 2); !d.Allowed || d.Limit.Requests != 30 || d.Remaining != 1 {
			t.Errorf("2 of 3: %+v", d)
		}
		d := l.AllowN(ctx, "k", 8)
		refused := !d.Allowed && d.Limit.Requests == 30 && d.Remaining == 0
		if !refused || d.RetryAfter != 55*time.Minute+10*time.Second || d.ResetAfter != 55*time.Minute+10*time.Second {
			t.Errorf("8 more: %+v", d)
		}
	})
}

// TestRecoveryWithoutLimit: where the store does not say which limit binds, what the
// fallback remembers refuses all the same.
func TestRecoveryWithoutLimit(t *testing.T) {
	store := &fake{answer: fails(errDown)}
	l := limiter(t, core.Config{Store: store, OnStoreError: core.Fallback(memory())})
	l.AllowN(ctx, "k", 3)
	store.answer = answers(core.Decision{Allowed: true})
	d := l.Allow(ctx, "k")
	if d.Allowed || d.RetryAfter <= 0 || store.calls[len(store.calls)-1].charge {
		t.Errorf("%+v, charged %v", d, store.calls[len(store.calls)-1].charge)
	}
}

// TestRecoveryAtOnce: replicas that recover together and are asked by many at once
// admit what is left and no more, and the store counts no request that is refused.
func TestRecoveryAtOnce(t *testing.T) {
	store := newFlaky()
	var replicas []*core.Limiter
	for range 4 {
		policy := core.Fallback(memory(), core.Share(4))
		limits := []core.Limit{core.PerHour(100), core.PerDay(150)}
		replicas = append(replicas, limiter(t, core.Config{Store: store, Limits: limits, OnStoreError: policy}))
	}
	store.down.Store(true)
	for _, l := range replicas {
		if !l.AllowN(ctx, "k", 7).Allowed {
			t.Fatal("7 of 25 refused")
		}
	}
	store.down.Store(false)
	var admitted atomic.Int64
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			for range 50 {
				if replicas[i%4].Allow(ctx, "k").Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	group.Wait()
	alone := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerHour(100), core.PerDay(150)}})
	if d := alone.AllowN(ctx, "k", 0); admitted.Load() != 72 || d.Remaining != 28 {
		t.Errorf("%d admitted, of which the store counts %d, want 72", admitted.Load(), 100-d.Remaining)
	}
}

// TestRecoveryOfMany: exactly the units of each client are kept back, however many, and
// nothing is bound to the store for it.
func TestRecoveryOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fake{answer: fails(errDown)}
		l := limiter(t, core.Config{
			Store: store, Limits: []core.Limit{core.PerHour(1_000_000)},
			OnStoreError: core.Fallback(memory(), core.Share(4)),
		})
		for units := int64(1); units <= 250_000; units += 1 + units/50 {
			client := fmt.Sprint(units)
			store.answer = fails(errDown)
			if d := l.AllowN(ctx, client, units); !d.Allowed || d.Err == nil {
				t.Fatalf("%d while down: %+v", units, d)
			}
			store.answer = answers(core.Decision{Allowed: true})
			if d := l.AllowN(ctx, client, 0); d.Err != nil || d.Limit.Requests != 1_000_000 {
				t.Fatalf("%d: %+v", units, d)
			}
			asked := store.calls[len(store.calls)-1].rule.Limits[0].Requests
			if want := max(1, 1_000_000-4*units); asked != want {
				t.Errorf("%d units of one of 4 replicas: asked with a limit of %d, want %d", units, asked, want)
			}
		}
		if len(store.bound) != 1 {
			t.Errorf("%d rules bound", len(store.bound))
		}
	})
}

// discard is a store that keeps nothing of its rules.
type discard struct{ name string }

func (discard) Bind(core.Rule) (core.Counts, error) { return &immediate{}, nil }

// TestManyRules: rules that are made while serving, and dropped, leave nothing behind.
func TestManyRules(t *testing.T) {
	l := limiter(t, core.Config{Name: "api", Store: discard{"first"}, OnStoreError: core.Fallback(discard{"second"})})
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for i := range 20_000 {
		if _, err := l.Rule(fmt.Sprint("tenant ", i), core.PerHour(10)); err != nil {
			t.Fatal(err)
		}
	}
	if grown := heap() - before; grown > 512<<10 {
		t.Errorf("20,000 rules left %d bytes", grown)
	}
	runtime.KeepAlive(l)
}

func BenchmarkRule(b *testing.B) {
	l := limiter(b, core.Config{Name: "api", Store: discard{"first"}, OnStoreError: core.Fallback(discard{"second"})})
	for i := 0; b.Loop(); i++ {
		core.Must(l.Rule(fmt.Sprint("tenant ", i), core.PerHour(10)))
	}
}

// TestFallbackAllocs: a fallback in memory costs no allocation, before an outage and
// after it, but for the limits of a client that it has admitted.
func TestFallbackAllocs(t *testing.T) {
	store := &immediate{}
	l := limiter(t, core.Config{
		Store: store, Limits: []core.Limit{core.PerHour(1000), core.PerDay(1000)},
		OnStoreError: core.Fallback(memory()),
	})
	check := func(when, client string, most float64) {
		if n := testing.AllocsPerRun(100, func() { l.Allow(ctx, client) }); n > most {
			t.Errorf("%s, %s: %v allocations", when, client, n)
		}
	}
	check("before", "k", 0)
	store.err = core.ErrStore
	l.Allow(ctx, "k")
	store.err = nil
	check("after", "k", 2)
	check("after", "other", 0)
}

// world is several replicas over one store, and a model of what each store counts.
type world struct {
	*testing.T
	next           func(n int) int // returns a choice from 0 to n-1
	limits, shares []core.Limit
	store          *flaky
	limiters       []*core.Limiter
	first          map[string]*model.Client   // the store's counts, by key
	second         []map[string]*model.Client // the counts of each replica's fallback, by key
	admitted       map[string][]admission     // by key
}

// admission is a number of units that a client got from the store, or from the
// fallback of the replica.
type admission struct {
	at       time.Time
	units    int64
	replica  int
	fallback bool
}

func newWorld(t *testing.T, next func(n int) int) *world {
	w := &world{
		T: t, next: next, store: newFlaky(), first: map[string]*model.Client{}, admitted: map[string][]admission{},
	}
	replicas := 1 + next(4)
	for i := range 1 + next(3) {
		limit := core.Per(1+int64(next(60)), time.Duration(1+next(20))*time.Second).Named(fmt.Sprint("limit ", i))
		if next(4) == 0 {
			limit = limit.Using(core.SlidingCounter)
		}
		w.limits = append(w.limits, limit)
		limit.Requests = max(1, limit.Requests/int64(replicas))
		w.shares = append(w.shares, limit)
	}
	for range replicas {
		policy := core.Fallback(memory(), core.Share(replicas))
		w.limiters = append(w.limiters, limiter(t, core.Config{Store: w.store, Limits: w.limits, OnStoreError: policy}))
		w.second = append(w.second, map[string]*model.Client{})
	}
	return w
}

// client returns the model of a client, which it adds if there is none.
func client(byKey map[string]*model.Client, key string) *model.Client {
	if byKey[key] == nil {
		byKey[key] = &model.Client{}
	}
	return byKey[key]
}

// left returns, for each limit, the requests that remain to the first store after
// what the fallbacks are taken to have admitted, and whether any are missing.
func (w *world) left(replica int, key string, at time.Time) (left []int64, less bool) {
	for i, l := range w.limits {
		f := w.shares[i].Requests - client(w.second[replica], key).Decide(w.shares[i:i+1], at, 0, false).Remaining
		left = append(left, max(0, l.Requests-int64(len(w.limiters))*f))
		if f > 0 && l.Requests < int64(len(w.limiters)) {
			left[i] = 0
		}
		less = less || f > 0
	}
	return left, less
}

// lowered returns the limits with the given requests, and whether the cost fits them.
func (w *world) lowered(left []int64, cost int64) (limits []core.Limit, fits bool) {
	limits, fits = slices.Clone(w.limits), true
	for i := range limits {
		limits[i].Requests = left[i]
		fits = fits && left[i] >= max(1, cost)
	}
	return limits, fits
}

// passes reports whether a request would pass at a later time if no other request
// came before.
func (w *world) passes(replica int, key string, cost int64, at time.Time) bool {
	left, _ := w.left(replica, key, at)
	limits, fits := w.lowered(left, cost)
	return fits && client(w.first, key).Decide(limits, at, cost, false).Allowed
}

// decide makes a request at a replica and compares the answer with the model.
func (w *world) decide(replica int, r core.Request) {
	now := time.Now()
	left, less := w.left(replica, r.Key, now)
	above := slices.ContainsFunc(w.limits, func(l core.Limit) bool { return r.Cost > l.Requests })
	d := w.limiters[replica].Decide(ctx, r)
	limits, fits := w.limits, true
	if less && !above {
		limits, fits = w.lowered(left, r.Cost)
	}
	var want core.Decision
	if !w.store.down.Load() && fits {
		want = client(w.first, r.Key).Decide(limits, now, r.Cost, !r.Peek)
	}
	switch {
	case w.store.down.Load(), w.store.slow.Load():
		want = client(w.second[replica], r.Key).Decide(w.shares, time.Now(), r.Cost, !r.Peek)
		if !errors.Is(d.Err, core.ErrStore) {
			w.Fatalf("the store has not answered: %+v", d)
		}
		want.Source = core.FromFallback
		if d.Err = nil; d != want {
			w.Fatalf("replica %d, %+v by the fallback:\n got %+v\nwant %+v", replica, r, d, want)
		}
		w.admit(r, admission{d.At, r.Cost, replica, true}, d.Allowed)
		return
	case d.Err != nil:
		w.Fatalf("the store has answered: %+v", d)
	case !less || above:
		if d != want {
			w.Fatalf("replica %d, %+v by the store alone:\n got %+v\nwant %+v", replica, r, d, want)
		}
	default:
		w.checkLowered(replica, r, d, want, fits)
	}
	w.admit(r, admission{d.At, r.Cost, replica, false}, d.Allowed)
}

// checkLowered checks an answer of the store for a client that the fallback has
// admitted. want is the model's answer under the lowered limits, if the cost fits
// them.
func (w *world) checkLowered(replica int, r core.Request, d, want core.Decision, fits bool) {
	i := slices.IndexFunc(w.limits, func(l core.Limit) bool { return l.Name == d.Limit.Name })
	if i < 0 || d.Limit != w.limits[i] {
		w.Fatalf("replica %d, %+v: %+v", replica, r, d)
	}
	reset := client(w.second[replica], r.Key).Decide(w.shares[i:i+1], time.Now(), 0, false).ResetAfter
	if want.ResetAfter == 0 || reset > 0 && reset < want.ResetAfter {
		want.ResetAfter = reset
	}
	if d.Allowed != (fits && want.Allowed || r.Cost == 0) || d.Allowed != (d.RetryAfter == 0) {
		w.Fatalf("replica %d, %+v: %+v, fits %v beside %+v", replica, r, d, fits, want)
	}
	if fits && want.Limit.Name == d.Limit.Name {
		want.Limit = d.Limit
	}
	if fits && d != want {
		w.Fatalf("replica %d, %+v:\n got %+v\nwant %+v", replica, r, d, want)
	}
	if !fits {
		left, _ := w.left(replica, r.Key, d.At)
		byFirst := client(w.first, r.Key).Decide(w.limits[i:i+1], d.At, 0, false)
		remain := left[i] - w.limits[i].Requests + byFirst.Remaining
		// With several limits, the store's answer may be about another limit.
		if remain = max(0, remain); d.Remaining > remain || d.Remaining < remain && len(w.limits) == 1 {
			w.Fatalf("replica %d, %+v: %+v with %d left", replica, r, d, remain)
		}
	}
	if !d.Allowed && !w.passes(replica, r.Key, r.Cost, d.At.Add(d.RetryAfter)) {
		w.Fatalf("replica %d, %+v: %+v is told to come too early", replica, r, d)
	}
}

// admit notes an admission, and holds each window that ends with it against the
// bounds that Fallback promises.
func (w *world) admit(r core.Request, a admission, allowed bool) {
	if !allowed || r.Peek || r.Cost == 0 {
		return
	}
	w.admitted[r.Key] = append(w.admitted[r.Key], a)
	all := w.admitted[r.Key]
	for i, l := range w.limits {
		if l.Algorithm != core.SlidingLog {
			continue
		}
		from := a.at.Add(-l.Window)
		var total, byStore int64
		byFallback := make([]int64, len(w.limiters))
		for _, one := range all {
			switch {
			case !one.at.After(from):
				continue
			case one.fallback:
				byFallback[one.replica] += one.units
			default:
				byStore += one.units
			}
			total += one.units
		}
		replicas := int64(len(w.limiters))
		if most := l.Requests + replicas*w.shares[i].Requests; total > most {
			w.Fatalf("%v: a window holds %d, more than %d", l, total, most)
		}
		if a.fallback {
			continue
		}
		most := l.Requests - replicas*byFallback[a.replica]
		for _, f := range byFallback {
			most += f
		}
		if total > most {
			w.Fatalf("%v: a window that the store ends holds %d, more than %d; fallbacks %v",
				l, total, most, byFallback)
		}
	}
}

func (w *world) reset(replica int, key string) {
	down := w.store.down.Load()
	if err := w.limiters[replica].Reset(ctx, key); (err != nil) != down {
		w.Fatalf("reset, down %v: %v", down, err)
	}
	delete(w.second[replica], key)
	if !down {
		delete(w.first, key)
	}
	w.admitted[key] = slices.DeleteFunc(w.admitted[key], func(a admission) bool {
		return a.fallback && a.replica == replica || !a.fallback && !down
	})
}

func (w *world) step() {
	replica, key := w.next(len(w.limiters)), fmt.Sprint("client ", w.next(3))
	switch choice := w.next(40); {
	case choice == 0:
		w.reset(replica, key)
	case choice < 4:
		w.store.down.Store(!w.store.down.Load())
	case choice == 4:
		w.store.slow.Store(!w.store.slow.Load())
	case choice < 12:
		time.Sleep(time.Duration(1+w.next(8000)) * time.Millisecond / time.Duration(1+w.next(50)) / 1000 * 1000)
	default:
		r := core.Request{Key: key, Cost: 1, Peek: w.next(6) == 0}
		if w.next(3) == 0 {
			r.Cost = int64(w.next(12))
		}
		w.decide(replica, r)
	}
}

// TestRecovery holds random histories of replicas whose store fails now and then
// against the model, answer by answer, and every window against the bounds.
func TestRecovery(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 14))
			w := newWorld(t, rng.IntN)
			for range 400 {
				w.step()
			}
		})
	}
}

// FuzzRecovery is TestRecovery with the fuzzer's choices.
func FuzzRecovery(f *testing.F) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 15))
		choices := make([]byte, 1000)
		for i := range choices {
			choices[i] = byte(rng.Uint32())
		}
		f.Add(choices)
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		synctest.Test(t, func(t *testing.T) {
			next := func(n int) int {
				if len(choices) == 0 {
					return 0
				}
				choice := int(choices[0])
				choices = choices[1:]
				if n > 256 && len(choices) > 0 {
					choice = choice<<8 | int(choices[0])
					choices = choices[1:]
				}
				return choice % n
			}
			w := newWorld(t, next)
			for range 2000 {
				if len(choices) == 0 {
					return
				}
				w.step()
			}
		})
	})
}
