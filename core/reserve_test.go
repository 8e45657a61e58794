package core_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
)

// TestReturn: units go back to the store that has counted them.
func TestReturn(t *testing.T) {
	store, second := newRecorder(0), memory()
	l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerHour(4)},
		OnStoreError: core.Fallback(second, 2)})
	byFirst := l.Reserve(ctx, core.Request{Key: "k", Cost: 1})
	store.down.Store(true)
	byFallback := l.Reserve(ctx, core.Request{Key: "k", Cost: 1})
	if d := byFallback.Decision; d.Source != core.SourceFallback || d.Remaining != 1 {
		t.Fatalf("%+v", d)
	}
	if n, err := byFallback.Return(ctx, 1); n != 1 || err != nil {
		t.Errorf("to the fallback: %d, %v", n, err)
	}
	if d := l.AllowN(ctx, "k", 0); d.Remaining != 2 {
		t.Errorf("the fallback after that: %+v", d)
	}
	n, err := byFirst.Return(ctx, 1)
	if n != 0 || !errors.Is(err, core.ErrStore) {
		t.Errorf("to a store that is down: %d, %v", n, err)
	}
	store.down.Store(false)
	if n, err := byFirst.Return(ctx, 1); n != 0 || err != nil {
		t.Errorf("a Return whose reply was lost is not sent again: %d, %v", n, err)
	}
	if d := l.AllowN(ctx, "k", 0); d.Remaining != 3 {
		t.Errorf("the store after that: %+v", d)
	}
}

// TestReturnUncounted: units that no store has counted are returned to none.
func TestReturnUncounted(t *testing.T) {
	store := &fake{answer: fails(errDown)}
	l := limiter(t, core.Config{Store: store, Observer: core.Silent})
	open := l.Reserve(ctx, core.Request{Key: "k", Cost: 1})
	store.answer = answers(core.Decision{})
	refused := l.Reserve(ctx, core.Request{Key: "k", Cost: 1})
	malformed := l.Reserve(ctx, core.Request{Cost: 1})
	store.answer = answers(core.Decision{Allowed: true})
	peek := l.Reserve(ctx, core.Request{Key: "k", Cost: 1, Peek: true})
	free := l.Reserve(ctx, core.Request{Key: "k"})
	store.calls = nil
	for i, r := range []*core.Reservation{open, refused, malformed, peek, free} {
		if n, err := r.Return(ctx, 1); n != 0 || err != nil {
			t.Errorf("%d: %d, %v", i, n, err)
		}
		if i < 4 {
			if err := r.Settle(ctx, 9); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
	}
	if len(store.calls) > 0 {
		t.Errorf("calls: %+v", store.calls)
	}
}

// ended is a context that has ended: it stops neither Return nor Settle.
var ended = func() context.Context { ctx, cancel := context.WithCancel(ctx); cancel(); return ctx }()

// TestReturnErrors: a malformed call asks nothing and uses up nothing.
func TestReturnErrors(t *testing.T) {
	l := limiter(t, core.Config{})
	r := l.Reserve(ctx, core.Request{Key: "k", Cost: 2})
	if _, err := r.Return(ctx, -1); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("Return: %v", err)
	}
	if err := r.Settle(ctx, -1); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("Settle: %v", err)
	}
	if n, err := r.Return(ended, math.MaxInt64); n != 2 || err != nil {
		t.Errorf("%d, %v, want both units", n, err)
	}
}

// TestSettleOnce: a request is settled once, whether it was counted or refused, and after that
// nothing can be returned.
func TestSettleOnce(t *testing.T) {
	for _, cost := range []int64{3, 101} { // 101 are refused
		for _, actual := range []int64{0, 1, 3, 9, math.MaxInt64} {
			l := limiter(t, core.Config{Limits: []core.Limit{core.PerHour(100)}})
			r := l.Reserve(ctx, core.Request{Key: "k", Cost: cost})
			if err := r.Settle(ended, actual); err != nil {
				t.Error(err)
			}
			if err := r.Settle(ctx, 9); !errors.Is(err, core.ErrInvalid) {
				t.Errorf("cost %d, settled at %d and again: got %v, want ErrInvalid", cost, actual, err)
			}
			if n, err := r.Return(ctx, 3); n != 0 || err != nil {
				t.Errorf("settled at %d: %d returned, %v", actual, n, err)
			}
			want := int64(100)
			if cost == 3 {
				want = max(0, want-actual)
			}
			if d := l.AllowN(ctx, "k", 0); d.Remaining != want {
				t.Errorf("cost %d, settled at %d: %d remain, want %d", cost, actual, d.Remaining, want)
			}
		}
	}
}

// TestReturnOnceInParallel: however many goroutines give a request back, each unit goes
// back once.
func TestReturnOnceInParallel(t *testing.T) {
	l := limiter(t, core.Config{Limits: []core.Limit{core.PerHour(100)}})
	l.AllowN(ctx, "k", 50)
	r := l.Reserve(ctx, core.Request{Key: "k", Cost: 20})
	var back atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 10 {
				n, _ := r.Return(ctx, 1)
				back.Add(n)
			}
		})
	}
	group.Wait()
	if d := l.AllowN(ctx, "k", 0); back.Load() != 20 || d.Remaining != 50 {
		t.Errorf("%d returned, %+v", back.Load(), d)
	}
}

// TestRequestLimits: limits of a request are those of the rule but for Requests; what
// else differs is an error with words, and the policy decides.
func TestRequestLimits(t *testing.T) {
	own := []core.Limit{core.PerMinute(3), core.PerHour(9).Named("hourly")}
	l := limiter(t, core.Config{Name: "api", Limits: own, Observer: core.Silent, OnStoreError: core.FailClosed})
	for _, c := range []struct {
		limits []core.Limit
		want   string
	}{
		{[]core.Limit{core.PerMinute(7), core.PerHour(9).Named("hourly")}, ""},
		{[]core.Limit{core.PerMinute(7).Named("1m0s"), core.PerHour(8)}, ""},
		{[]core.Limit{core.Per(7, time.Minute-100), own[1]}, ""}, // rounded as by New
		{own[:1], `Request.Limits has 1 limits, and limiter "api" has 2: give one for each`},
		{[]core.Limit{}, "has 0 limits"},
		{[]core.Limit{core.PerSecond(3), own[1]}, "Request.Limits[0]"},
		{[]core.Limit{own[0], own[1].Named("daily")}, "with other Requests"},
		{[]core.Limit{own[0].Using(core.SlidingCounter), own[1]}, "is 3/1m counter:"},
		{[]core.Limit{core.PerMinute(0), own[1]}, "at least 1 is needed"},
		{[]core.Limit{core.PerMinute(core.MaxLogRequests + 1), own[1]}, "Request.Limits[0]"},
	} {
		given := slices.Clone(c.limits)
		d := l.Decide(ctx, core.Request{Key: "k", Cost: 1, Limits: given})
		switch {
		case !slices.Equal(given, c.limits):
			t.Errorf("%v: the caller's limits were changed to %v", c.limits, given)
		case c.want == "" && (!d.Allowed || d.Err != nil || d.Limit.Name == ""):
			t.Errorf("%v: %+v", c.limits, d)
		case c.want == "":
		case d.Allowed || !errors.Is(d.Err, core.ErrLimits) || !strings.Contains(d.Err.Error(), c.want):
			t.Errorf("%v: %+v, want %q", c.limits, d, c.want)
		}
	}
	for _, r := range []core.Request{
		{Key: "k", Cost: 1, Peek: true, Charge: true}, {Key: "k", Cost: core.MaxCounterRequests + 1, Charge: true},
		{Key: "k", Cost: -1, Charge: true}, {Cost: 1, Charge: true},
	} {
		if d := l.Decide(ctx, r); d.Allowed || !errors.Is(d.Err, core.ErrInvalid) {
			t.Errorf("%+v: %+v", r, d)
		}
	}
}

// TestFallbackOverrides: while the store fails, the fallback enforces its share of the request's limits, counts a
// charge beyond its own, and tells what it has counted, beside the error.
func TestFallbackOverrides(t *testing.T) {
	store := newRecorder(0)
	l := limiter(t, core.Config{Store: store, OnStoreError: core.Fallback(memory(), 2), Observer: core.Silent,
		Limits: []core.Limit{core.PerMinute(3), core.PerHour(120)}})
	l.Allow(ctx, "k")
	store.down.Store(true)
	limits := []core.Limit{core.PerMinute(20), core.PerHour(120)}
	d := l.Decide(ctx, core.Request{Key: "k", Cost: 3, Limits: limits})
	if !d.Allowed || d.Remaining != 7 || d.Limit.Requests != 10 {
		t.Errorf("%+v, want 7 remaining of 10", d)
	}
	d = l.Charge(ctx, "k", 50)
	if !d.Allowed || d.Source != core.SourceFallback || !errors.Is(d.Err, core.ErrStore) {
		t.Errorf("%+v, want an admission by the fallback", d)
	}
	uses, err := l.Usage(ctx, "k")
	if len(uses) != 2 || !isAll(err, core.ErrStore, errDown) {
		t.Fatalf("%+v, %v, want the fallback's uses and ErrStore", uses, err)
	}
	for i, want := range [][3]int64{{1, 53, 0}, {60, 53, 7}} {
		if u := uses[i]; want != [3]int64{u.Limit.Requests, u.Used, u.Remaining} {
			t.Errorf("limit %d: %+v, want a limit, used and remaining %v", i, u, want)
		}
	}
}

// TestFallbackWithoutLimits: the fallback decides a request with other limits by those of the rule, and takes its units
// back by them.
func TestFallbackWithoutLimits(t *testing.T) {
	l := limiter(t, core.Config{Store: memory(), OnStoreError: core.Fallback(memory(), 1), Observer: core.Silent,
		Limits: []core.Limit{core.PerMinute(3)}})
	for _, limits := range [][]core.Limit{{}, {core.PerMinute(5), core.PerHour(5)}, {core.PerHour(5)}} {
		r := l.Reserve(ctx, core.Request{Key: "k", Cost: 2, Limits: limits})
		if d := r.Decision; !d.Allowed || d.Source != core.SourceFallback || !errors.Is(d.Err, core.ErrLimits) {
			t.Fatalf("%v: %+v", limits, d)
		}
		if n, err := r.Return(ctx, 2); n != 2 || err != nil {
			t.Errorf("%v: %d units came back, %v, want 2", limits, n, err)
		}
	}
}

// TestSettleKeepsLimits: the caller may use the slice of limits for another request.
func TestSettleKeepsLimits(t *testing.T) {
	l := limiter(t, core.Config{Store: memory(), Limits: []core.Limit{core.PerHour(10)}})
	limits := []core.Limit{core.PerHour(20)}
	r := l.Reserve(ctx, core.Request{Key: "k", Cost: 5, Limits: limits})
	limits[0] = core.Limit{}
	if err := r.Settle(ctx, 7); err != nil {
		t.Error(err)
	}
	if d := l.AllowN(ctx, "k", 0); d.Remaining != 3 {
		t.Errorf("%+v, want 3 remaining", d)
	}
}

// TestSilentRefusal: the observer gets an admission and the charge of Settle, and no refusal.
func TestSilentRefusal(t *testing.T) {
	var told []string
	store := newRecorder(0)
	l := limiter(t, core.Config{
		Store: store, Limits: []core.Limit{core.PerHour(10)}, OnStoreError: core.FailClosed,
		Observer: core.ObserverFunc(func(_ context.Context, e core.Event) {
			told = append(told, fmt.Sprint(e.Cost, " ", e.Decision.Allowed))
		}),
	})
	r := l.Reserve(ctx, core.Request{Key: "k", Cost: 4, SilentRefusal: true})
	l.Reserve(ctx, core.Request{Key: "k", Cost: 7, SilentRefusal: true})
	store.down.Store(true)
	if err := r.Settle(ctx, 6); !errors.Is(err, core.ErrStore) {
		t.Errorf("Settle returned %v, want ErrStore", err)
	}
	if want := []string{"4 true", "2 false"}; !slices.Equal(told, want) {
		t.Errorf("the observer heard %q, want %q", told, want)
	}
}
