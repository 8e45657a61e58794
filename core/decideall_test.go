package core_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/internal/notice"
)

// pair is a request of cost 1.
func pair(l *core.Limiter, key string) core.Pair {
	return core.Pair{Limiter: l, Request: core.Request{Key: key, Cost: 1}}
}

// remote returns a store in memory that answers as one over a network does: after a while.
func remote(store core.Store, after time.Duration) core.Store {
	return storetest.Wrap(store, func(ctx context.Context, call storetest.Call) (core.Decision, error) {
		if call.Verb != "Usage" {
			time.Sleep(after)
		}
		return call.Next(ctx)
	})
}

// TestDecideAllAtOnce: stores that wait are asked at the same time, and have what they counted taken back at the same
// time. A store in memory is asked before them, and what it refuses none of them hears of.
func TestDecideAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := remote(memory(), 10*time.Millisecond)
		of := func(name string, store core.Store, requests int64) core.Pair {
			limits := []core.Limit{core.PerHour(requests)}
			return pair(limiter(t, core.Config{Name: name, Store: store, Limits: limits}), "k")
		}
		pairs := []core.Pair{of("a", slow, 9), of("b", slow, 9), of("c", slow, 2), of("memory", memory(), 4)}
		for i, want := range []struct {
			pairs   []core.Pair
			takes   time.Duration
			binding int
			allowed bool
		}{
			{pairs, 10 * time.Millisecond, 2, true},
			{pairs, 10 * time.Millisecond, 2, true},
			{pairs, 20 * time.Millisecond, 2, false},
			{[]core.Pair{pairs[0], pairs[1], pairs[3]}, 10 * time.Millisecond, 2, true},
			{[]core.Pair{pairs[0], pairs[1], pairs[3]}, 10 * time.Millisecond, 2, true},
			{[]core.Pair{pairs[0], pairs[1], pairs[3]}, 0, 2, false},
		} {
			start := time.Now()
			d, binding := core.DecideAll(ctx, want.pairs...)
			if took := time.Since(start); took != want.takes || d.Allowed != want.allowed || binding != want.binding {
				t.Errorf("%d: %+v of pair %d after %v, want %+v", i, d, binding, took, want)
			}
		}
	})
}

// TestDecideAllRefusal: of requests of any costs, whatever the stores are, all count or none does, and a refusal
// is that of a limit that refuses the pair by itself.
func TestDecideAllRefusal(t *testing.T) { synctest.Test(t, testRefusal) }

func testRefusal(t *testing.T) {
	rng := rand.New(rand.NewPCG(24, 1))
	inMemory := memory()
	var limiters []*core.Limiter
	far := remote(inMemory, 0)
	for i, store := range []core.Store{far, inMemory, far, far} {
		algorithm := core.Algorithms()[i%len(core.Algorithms())]
		limiters = append(limiters, limiter(t, core.Config{Name: strconv.Itoa(i), Store: store,
			Limits: []core.Limit{core.PerSecond(4).Using(algorithm), core.PerMinute(12)}}))
	}
	used := func(p core.Pair) int64 {
		uses, err := p.Limiter.Usage(ctx, p.Request.Key)
		if err != nil {
			t.Fatal(err)
		}
		return uses[1].Used
	}
	refusals := 0
	for range 3000 {
		time.Sleep(time.Duration(rng.Int64N(int64(time.Second))))
		var pairs []core.Pair
		var before []int64
		for _, i := range rng.Perm(len(limiters))[:1+rng.IntN(len(limiters))] {
			request := core.Request{Key: strconv.Itoa(rng.IntN(2)), Cost: rng.Int64N(4)}
			pairs = append(pairs, core.Pair{Limiter: limiters[i], Request: request})
			before = append(before, used(pairs[len(pairs)-1]))
		}
		d, binding := core.DecideAll(ctx, pairs...)
		for i, p := range pairs {
			want := before[i]
			if d.Allowed {
				want += p.Request.Cost
			}
			if got := used(p); got != want {
				t.Fatalf("pair %d of %+v: %d used, want %d after %+v", i, pairs, got, want, d)
			}
		}
		if d.Allowed {
			continue
		}
		refusals++
		p := pairs[binding]
		p.Request.Peek = true
		if alone := p.Limiter.Decide(ctx, p.Request); alone != d {
			t.Fatalf("pair %d of %+v:\n got %+v\nwant %+v", binding, pairs, d, alone)
		}
	}
	if refusals < 100 {
		t.Errorf("%d refusals, want some", refusals)
	}
}

// TestDecideAllOneLimiter: a limiter and a key may stand in two pairs.
func TestDecideAllOneLimiter(t *testing.T) {
	for name, store := range map[string]core.Store{"memory": memory(), "remote": remote(memory(), 0)} {
		l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerHour(3)}})
		for i, want := range []int64{2, 2} { // used
			d, _ := core.DecideAll(ctx, pair(l, "k"), pair(l, "k"))
			if left := l.AllowN(ctx, "k", 0).Remaining; d.Allowed != (i == 0) || 3-left != want {
				t.Errorf("%s: %+v and %d used, want %d", name, d, 3-left, want)
			}
		}
	}
}

// TestDecideAllEvents: observers get the decisions in the goroutine of the caller, but for returned units.
func TestDecideAllEvents(t *testing.T) {
	var heard []string // without a lock
	hears := core.ObserverFunc(func(_ context.Context, e core.Event) { heard = append(heard, e.Name) })
	of := func(name string, store core.Store, requests int64) core.Pair {
		return pair(limiter(t, core.Config{Name: name, Store: store, Observer: hears,
			Limits: []core.Limit{core.PerHour(requests)}}), "k")
	}
	expect := func(want string, pairs ...core.Pair) {
		heard = nil
		core.DecideAll(ctx, pairs...)
		if got := strings.Join(heard, " "); got != want {
			t.Errorf("events of %q, want %q", got, want)
		}
	}
	down, once := of("down", &fake{answer: fails(errDown)}, 9), of("once", memory(), 1)
	for _, want := range []string{"a b once down", "once"} {
		expect(want, of("a", remote(memory(), 0), 9), of("b", remote(memory(), 0), 9), once, down)
	}
	synctest.Test(t, func(t *testing.T) {
		last := of("last", remote(memory(), time.Millisecond), 1)
		last.Request.Cost = 2
		expect("down last", of("a", memory(), 9), down, last) // the failure and the refusal
	})
}

// TestDecideAllPanics: a panic of an observer or of a store is one of the caller's goroutine.
func TestDecideAllPanics(t *testing.T) {
	panics := core.ObserverFunc(func(context.Context, core.Event) { panic("observed") })
	slow := remote(memory(), 0)
	broken := &fake{answer: func(context.Context) (core.Decision, error) { panic("taken") }}
	for want, last := range map[string]*core.Limiter{
		"observed": limiter(t, core.Config{Name: "last", Store: slow, Observer: panics}),
		"taken":    limiter(t, core.Config{Name: "last", Store: broken}),
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panicked with %v, want %q", got, want)
				}
			}()
			core.DecideAll(ctx, pair(limiter(t, core.Config{Store: slow}), "k"), pair(last, "k"))
		}()
	}
}

// TestDecideAllReturnFails: what stays counted after a refusal is noticed.
func TestDecideAllReturnFails(t *testing.T) {
	for want, err := range map[string]error{errDown.Error(): errDown, "does not find them": nil} {
		synctest.Test(t, func(t *testing.T) {
			var heard notices
			forgets := storetest.Wrap(memory(), func(ctx context.Context, call storetest.Call) (core.Decision, error) {
				if call.Verb == "Return" && err != nil {
					return core.Decision{}, err
				}
				call.Back.Units = 0 // gives nothing back
				return call.Next(ctx)
			})
			first := limiter(t, core.Config{Store: forgets, Observer: &heard})
			second := limiter(t, core.Config{Store: remote(memory(), 1), Limits: []core.Limit{core.PerHour(1)}})
			second.Allow(ctx, "k")
			if d, i := core.DecideAll(ctx, pair(first, "k"), pair(second, "k")); d.Allowed || i != 1 {
				t.Errorf("%s: %+v of pair %d", want, d, i)
			}
			said := heard.expect(t, want, notice.ReturnFailed)
			if len(said) == 1 && !strings.Contains(said[0].Text, want) {
				t.Errorf("%+v, want %q in it", said, want)
			}
		})
	}
}

// TestDecideAllErrors: malformed calls count nothing and do not panic.
func TestDecideAllErrors(t *testing.T) {
	l := limiter(t, core.Config{Observer: core.Silent})
	good := pair(l, "k")
	for name, c := range map[string]struct {
		pairs   []core.Pair
		binding int
	}{
		"no pairs":    {nil, 0},
		"nil limiter": {[]core.Pair{good, {Request: good.Request}}, 1},
		"zero":        {[]core.Pair{good, {new(core.Limiter), good.Request}}, 1},
		"charge":      {[]core.Pair{good, {l, core.Request{Key: "k", Cost: 1, Charge: true}}}, 1},
		"no key":      {[]core.Pair{good, {l, core.Request{Cost: 1}}}, 1},
	} {
		d, binding := core.DecideAll(ctx, c.pairs...)
		if d.Allowed || !errors.Is(d.Err, core.ErrInvalid) || binding != c.binding {
			t.Errorf("%s: %+v of pair %d", name, d, binding)
		}
	}
	if d := l.AllowN(ctx, "k", 0); d.Remaining != 3 {
		t.Errorf("%+v", d)
	}
}

// TestDecideAllBinding: of several admissions the tighter one is returned. A pair whose store
// fails is decided by its policy.
func TestDecideAllBinding(t *testing.T) {
	by := func(remaining int64, reset time.Duration) core.Pair {
		d := core.Decision{Allowed: true, Limit: core.PerMinute(9), Remaining: remaining, ResetAfter: reset}
		return pair(limiter(t, core.Config{Store: &fake{answer: answers(d)}}), "k")
	}
	down := limiter(t, core.Config{Store: &fake{answer: fails(errDown)}, Observer: core.Silent})
	open, closed := pair(down, "k"), pair(down.WithPolicy(core.FailClosed), "k")
	for i, c := range []struct {
		pairs  []core.Pair
		want   int
		failed bool
	}{
		{[]core.Pair{by(3, 0), by(2, 0), by(4, 0)}, 1, false},
		{[]core.Pair{by(3, 1), by(3, 2), by(3, 2)}, 1, false},
		{[]core.Pair{by(3, 1), by(3, 1)}, 0, false},
		{[]core.Pair{open, by(3, 1)}, 1, true},
		{[]core.Pair{by(3, 1), closed}, 1, true},
	} {
		d, binding := core.DecideAll(ctx, c.pairs...)
		allowed := c.pairs[c.want].Limiter != closed.Limiter
		if binding != c.want || errors.Is(d.Err, core.ErrStore) != c.failed || d.Allowed != allowed {
			t.Errorf("%d: %+v of pair %d, want %d", i, d, binding, c.want)
		}
	}
}
