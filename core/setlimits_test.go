package core_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// TestSetLimits: a raised limit admits at once, and a lowered one has no negative
// Remaining, on the counts that there are.
func TestSetLimits(t *testing.T) {
	l := limiter(t, core.Config{Name: "api", Limits: []core.Limit{core.PerMinute(3), core.PerHour(9).Named("hourly")}})
	if n := l.AllowN(ctx, "k", 3).Remaining; n != 0 || l.Allow(ctx, "k").Allowed {
		t.Fatal(n)
	}
	for _, c := range []struct {
		perMinute, perHour int64
		allowed            bool
		remaining          int64
		limit              string
		used               int64
	}{
		{5, 9, true, 1, "1m0s", 4},
		{2, 9, false, 0, "1m0s", 4},
		{100, 5, true, 0, "hourly", 5},
		{100, 4, false, 0, "hourly", 5},
		{3, 9, false, 0, "1m0s", 5},
		{6, 9, true, 0, "1m0s", 6},
	} {
		if err := l.SetLimits(core.PerMinute(c.perMinute), core.PerHour(c.perHour)); err != nil {
			t.Fatal(err)
		}
		d := l.Allow(ctx, "k")
		if d.Allowed != c.allowed || d.Remaining != c.remaining || d.Limit.Name != c.limit || d.Err != nil {
			t.Errorf("%+v: %+v", c, d)
		}
		limits := l.Limits()
		if limits[0].Requests != c.perMinute || limits[1] != core.PerHour(c.perHour).Named("hourly") {
			t.Errorf("%+v: Limits are %v", c, limits)
		}
		uses, err := l.Usage(ctx, "k")
		if err != nil || uses[0].Used != c.used || uses[0].Limit != limits[0] ||
			uses[0].Remaining != max(0, c.perMinute-c.used) {
			t.Errorf("%+v: %+v, %v", c, uses, err)
		}
	}
	own := core.Request{Key: "k", Cost: 1, Limits: []core.Limit{core.PerMinute(7), core.PerHour(8)}}
	if d := l.Decide(ctx, own); !d.Allowed || d.Limit.Requests != 7 {
		t.Errorf("limits of a request: %+v", d)
	}
	if n := l.Revision(); n != 6 {
		t.Errorf("revision %d, want 6", n)
	}
}

// TestSetLimitsErrors: what is not the same count is an error with words, and changes
// nothing.
func TestSetLimitsErrors(t *testing.T) {
	l := limiter(t, core.Config{Name: "api", Limits: []core.Limit{core.PerMinute(3), core.PerHour(9)}})
	for _, c := range []struct {
		limits []core.Limit
		want   string
	}{
		{nil, `sash: limiter "api": SetLimits has 0 limits, and limiter "api" has 2`},
		{[]core.Limit{core.PerMinute(4)}, "give one for each"},
		{[]core.Limit{core.PerSecond(4), core.PerHour(9)}, "SetLimits[0] is"},
		{[]core.Limit{core.PerHour(9), core.PerMinute(4)}, "with other Requests"},
		{[]core.Limit{core.PerMinute(4), core.PerHour(9).Named("hourly")}, "SetLimits[1] is"},
		{[]core.Limit{core.PerMinute(4).Using(core.SlidingCounter), core.PerHour(9)}, "is 4/1m counter:"},
		{[]core.Limit{core.PerMinute(4), core.PerHour(0)}, "at least 1 is needed"},
		{[]core.Limit{core.PerMinute(4), core.PerHour(core.MaxLogRequests + 1)}, "SetLimits[1]"},
	} {
		err := l.SetLimits(c.limits...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.limits, err, c.want)
		}
		if len(c.limits) == 2 && l.CheckLimits(c.limits...) == nil {
			t.Errorf("CheckLimits(%v) returned nil", c.limits)
		}
	}
	if limits := l.Limits(); limits[0].Requests != 3 || l.Revision() != 0 {
		t.Errorf("%v, revision %d", limits, l.Revision())
	}
	if err := l.CheckLimits(core.PerMinute(1), core.PerHour(1)); err != nil {
		t.Error(err)
	}
	var zero core.Limiter
	if err := zero.SetLimits(); err == nil || len(zero.Limits()) != 0 {
		t.Error("the zero Limiter was changed")
	}
	if _, err := zero.WithLimits(core.PerMinute(1)); err == nil {
		t.Error("the zero Limiter has a copy")
	}
}

// TestSetLimitsOfCopies: copies of WithPolicy are changed together, whichever was made
// first; rules and limiters that were made on their own are not.
func TestSetLimitsOfCopies(t *testing.T) {
	store := memstore.New()
	config := core.Config{Name: "api", Store: store, Limits: []core.Limit{core.PerMinute(3)}}
	l, other := limiter(t, config), limiter(t, config)
	before, rule := l.WithPolicy(core.FailClosed), core.Must(l.Rule("login", core.PerMinute(3)))
	if err := before.SetLimits(core.PerMinute(5)); err != nil {
		t.Fatal(err)
	}
	after := l.WithPolicy(core.FailOpen)
	wide := core.Must(l.WithLimits(core.PerMinute(8), core.PerHour(20)))
	for name, c := range map[string]struct {
		limiter *core.Limiter
		want    int64
	}{
		"itself": {l, 5}, "a copy": {before, 5}, "a later copy": {after, 5},
		"a rule": {rule, 3}, "a limiter of that name": {other, 3}, "with limits": {wide, 8},
	} {
		if n := c.limiter.Limits()[0].Requests; n != c.want {
			t.Errorf("%s: %d, want %d", name, n, c.want)
		}
		if n := c.limiter.Allow(ctx, name).Remaining; n != c.want-1 {
			t.Errorf("%s: %d remaining, want %d", name, n, c.want-1)
		}
	}
	l.AllowN(ctx, "k", 5)
	if d := wide.Allow(ctx, "k"); d.Remaining != 2 || d.Limit.Window != time.Minute {
		t.Errorf("WithLimits does not share the count of a minute: %+v", d)
	}
}

// TestWithLimitsIsOnPurpose: other numbers of WithLimits are no mistake to tell of.
func TestWithLimitsIsOnPurpose(t *testing.T) {
	var heard notices
	l := limiter(t, core.Config{Name: "api", Limits: []core.Limit{core.PerMinute(3)}, Observer: &heard})
	wide := core.Must(l.WithLimits(core.PerMinute(8), core.PerHour(20)))
	for _, l := range []*core.Limiter{l, wide} {
		l.Allow(ctx, "k")
	}
	heard.expect(t, "other numbers")
}

// TestSetLimitsFallback: the fallback enforces its share of the new numbers.
func TestSetLimitsFallback(t *testing.T) {
	store := newFlaky()
	l := limiter(t, core.Config{
		Store: store, Limits: []core.Limit{core.PerHour(4)}, OnStoreError: core.Fallback(memory(), core.Share(2)),
	})
	if err := l.SetLimits(core.PerHour(20)); err != nil {
		t.Fatal(err)
	}
	store.down.Store(true)
	if d := l.AllowN(ctx, "k", 6); !d.Allowed || d.Remaining != 4 || d.Limit.Requests != 10 {
		t.Errorf("by the fallback: %+v", d)
	}
	if uses, err := l.Usage(ctx, "k"); !errors.Is(err, core.ErrStore) || uses[0].Remaining != 4 {
		t.Errorf("by the fallback: %+v, %v", uses, err)
	}
}

// TestSetLimitsUnderLoad: while limits change, each decision is by the old or by the new
// numbers of both limits, no more than the largest is admitted, and all that is admitted
// counts.
func TestSetLimitsUnderLoad(t *testing.T) {
	l := limiter(t, core.Config{Limits: []core.Limit{core.PerMinute(1000), core.PerHour(2000)}})
	var admitted atomic.Int64
	var deciding, setting sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		setting.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				n := 500 + rand.Int64N(1000)
				if err := l.SetLimits(core.PerMinute(n), core.PerHour(2*n)); err != nil {
					t.Error(err)
					return
				}
				if limits := l.Limits(); 2*limits[0].Requests != limits[1].Requests {
					t.Errorf("numbers of two changes: %v", limits)
				}
			}
		})
	}
	for range 4 {
		deciding.Go(func() {
			for range 1000 {
				d := l.Allow(ctx, "k")
				if d.Allowed {
					admitted.Add(1)
				}
				if d.Remaining < 0 || d.Err != nil {
					t.Errorf("%+v", d)
				}
			}
		})
	}
	deciding.Wait()
	close(done)
	setting.Wait()
	uses, err := l.Usage(ctx, "k")
	if n := admitted.Load(); err != nil || n >= 1500 || n < 500 || uses[0].Used != n {
		t.Errorf("%d admitted, %+v, %v", n, uses, err)
	}
}

// TestSetLimitsWakes: a raised limit wakes the callers that wait, and a wait ends early by
// the new numbers.
func TestSetLimitsWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(1)}})
		l.Allow(ctx, "k")
		begun := time.Now()
		time.AfterFunc(time.Minute, func() {
			if err := l.SetLimits(core.PerHour(9)); err != nil {
				t.Error(err)
			}
		})
		if _, err := l.Wait(ctx, "k"); err != nil || time.Since(begun) != time.Minute {
			t.Errorf("%v after %v, want a minute", err, time.Since(begun))
		}
		if d, err := l.WaitN(ctx, "k", 7); err != nil || d.Remaining != 0 || time.Since(begun) != time.Minute {
			t.Errorf("a cost above the limit of before: %+v, %v", d, err)
		}
		if _, err := l.WaitN(ctx, "k", 10); !errors.Is(err, core.ErrNever) {
			t.Error(err)
		}
	})
}
