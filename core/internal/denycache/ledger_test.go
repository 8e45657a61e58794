package denycache

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

var errDown = errors.New("down")

// stub is a ledger with a given answer. It counts its calls.
type stub struct {
	core.Ledger
	answer core.Decision
	err    error  // the answer's, and that of other calls
	leave  func() // called during a Take
	calls  int
}

func (n *stub) Take(context.Context, core.Ask) core.Decision {
	if n.calls++; n.leave != nil {
		n.leave()
	}
	d := n.answer
	d.Err = n.err
	return d
}

func (n *stub) Return(_ context.Context, back core.Refund) (int64, error) {
	n.calls++
	return back.Units, n.err
}

func (n *stub) Reset(context.Context, string) error {
	n.calls++
	return n.err
}

// newRefusing returns a ledger with a cached refusal of the client k, and the next ledger.
func newRefusing(t *testing.T) (core.Ledger, *stub) {
	t.Helper()
	next := &stub{answer: refusalFor(time.Hour)}
	l := New().Wrap(bound, next)
	if d := l.Take(t.Context(), core.Ask{Key: "k", Cost: 1}); d != next.answer {
		t.Fatalf("%+v", d)
	}
	time.Sleep(ms)
	next.calls, next.answer = 0, core.Decision{Allowed: true}
	return l, next
}

// isCached reports whether the client k is refused without a call.
func (n *stub) isCached(t *testing.T, l core.Ledger) bool {
	t.Helper()
	before := n.calls
	d := l.Take(t.Context(), core.Ask{Key: "k", Cost: 1})
	if n.calls == before && (d.Err != nil || d.Allowed || d.Source != core.SourceCached) {
		t.Fatalf("%+v", d)
	}
	return n.calls == before
}

// TestUnsent: once a second a refusal is checked. If that request was certainly not sent, the cached refusal is the
// answer, and otherwise the error.
func TestUnsent(t *testing.T) {
	for stage := core.StageUnknown; stage <= core.StageFallback; stage++ {
		synctest.Test(t, func(t *testing.T) {
			l, next := newRefusing(t)
			time.Sleep(RefreshInterval)
			next.answer, next.err = core.Decision{}, core.AtStage(stage, errDown)
			next.leave = func() { time.Sleep(RefreshInterval) } // until another caller checks
			d := l.Take(t.Context(), core.Ask{Key: "k", Cost: 1})
			cached := stage == core.StageUnavailable || stage == core.StageQueued || stage == core.StageConnect
			if next.calls != 1 || (d.Err == nil) != cached || (d.Source == core.SourceCached) != cached || d.Allowed {
				t.Errorf("%v: %+v, %d calls", stage, d, next.calls)
			}
			if err := l.Take(t.Context(), core.Ask{Key: "k", Cost: 2}).Err; !errors.Is(err, errDown) {
				t.Errorf("%v: the cost has no cached refusal, and the error is %v", stage, err)
			}
		})
	}
}

// TestRefresherLeaves: if a caller leaves while it checks, another checks soon.
func TestRefresherLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, next := newRefusing(t)
		time.Sleep(RefreshInterval)
		ctx, cancel := context.WithCancel(t.Context())
		next.err, next.leave = context.Canceled, cancel
		if err := l.Take(ctx, core.Ask{Key: "k", Cost: 1}).Err; !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
		next.err, next.leave = nil, nil
		if !next.isCached(t, l) {
			t.Error("another checks at once")
		}
		time.Sleep(refreshDelay)
		if next.isCached(t, l) {
			t.Error("no other checks")
		}
	})
}

// TestOverrides: what may have been counted although the rule's limits refuse ends a refusal; what counts nothing, or
// ahead of time, does not, and is not refused from memory.
func TestOverrides(t *testing.T) {
	limits, errUnsent := []core.Limit{core.PerHour(5)}, core.AtStage(core.StageUnavailable, errDown)
	lowered, charged := &core.Override{Limits: limits}, &core.Override{Charge: true, Limits: limits}
	for name, c := range map[string]struct {
		ask     core.Ask
		err     error
		refused bool // and not allowed
		ends    bool
	}{
		"charge":                  {core.Ask{Cost: 1, Override: &core.Override{Charge: true}}, nil, false, true},
		"charge of nothing":       {core.Ask{Override: &core.Override{Charge: true}}, nil, false, false},
		"charge that failed":      {core.Ask{Cost: 1, Override: &core.Override{Charge: true}}, errDown, false, true},
		"charge that was unsent":  {core.Ask{Cost: 1, Override: &core.Override{Charge: true}}, errUnsent, false, false},
		"by limits":               {core.Ask{Cost: 1, Override: lowered}, nil, false, true},
		"refused by limits":       {core.Ask{Cost: 1, Override: lowered}, nil, true, false},
		"look by limits":          {core.Ask{Cost: 1, Peek: true, Override: lowered}, nil, false, false},
		"ahead":                   {core.Ask{Cost: 1, Override: &core.Override{Delay: 1}}, nil, true, false},
		"ahead, which failed":     {core.Ask{Cost: 1, Override: &core.Override{Delay: 1}}, errDown, false, false},
		"another cost, as usual":  {core.Ask{Cost: 2}, nil, true, false},
		"a charge, by other ones": {core.Ask{Cost: 1, Override: charged}, nil, false, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, next := newRefusing(t)
			if next.err = c.err; c.refused {
				next.answer = refusalFor(time.Hour)
			} else if c.err != nil {
				next.answer = core.Decision{}
			}
			c.ask.Key = "k"
			want := next.answer
			want.Err = c.err
			if d := l.Take(t.Context(), c.ask); next.calls != 1 || d != want {
				t.Errorf("%s: %+v, %d calls", name, d, next.calls)
			}
			next.err = nil
			if got := next.isCached(t, l); got == c.ends {
				t.Errorf("%s: the refusal is cached after it: %v", name, got)
			}
		})
	}
}

// TestAheadIsNotCached: the refusal of what is counted ahead of time is no refusal of the client.
func TestAheadIsNotCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &stub{answer: refusalFor(time.Hour)}
		l := New().Wrap(bound, next)
		ahead := core.Ask{Key: "k", Cost: 1, Override: &core.Override{Delay: time.Second}}
		if err := l.Take(t.Context(), ahead).Err; err != nil {
			t.Fatal(err)
		}
		if next.isCached(t, l) {
			t.Error("it is cached")
		}
	})
}

// TestOwnLimits: a refusal by limits of a request answers requests with all the same limits alone.
func TestOwnLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &stub{answer: refusalFor(time.Hour)}
		l := New().Wrap(bound, next)
		for i, n := range []int64{5, 5, 6} {
			own := &core.Override{Limits: []core.Limit{core.PerHour(n), core.PerMinute(1)}}
			l.Take(t.Context(), core.Ask{Key: "k", Cost: 1, Override: own})
			if want := []int{1, 1, 2}[i]; next.calls != want {
				t.Errorf("%d requests, %d calls, want %d", i+1, next.calls, want)
			}
		}
	})
}

// TestReturnAndReset: a return and a reset end the refusals of the client, also if they fail. A reset whose context has
// ended does nothing.
func TestReturnAndReset(t *testing.T) {
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(errDown)
	for name, c := range map[string]struct {
		do   func(core.Ledger) error
		err  error
		ends bool
	}{
		"return": {func(l core.Ledger) error {
			n, err := l.Return(context.Background(), core.Refund{Key: "k", Units: 1})
			if n != 1 {
				t.Errorf("%d units went back, want 1", n)
			}
			return err
		}, errDown, true},
		"reset":              {func(l core.Ledger) error { return l.Reset(context.Background(), "k") }, nil, true},
		"reset that failed":  {func(l core.Ledger) error { return l.Reset(context.Background(), "k") }, errDown, true},
		"reset that is late": {func(l core.Ledger) error { return l.Reset(ended, "k") }, errDown, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, next := newRefusing(t)
			next.err = c.err
			if err := c.do(l); !errors.Is(err, c.err) || (next.calls == 1) != c.ends {
				t.Errorf("%s: %v, %d calls", name, err, next.calls)
			}
			next.err = nil
			if got := next.isCached(t, l); got == c.ends {
				t.Errorf("%s: the refusal is cached after it: %v", name, got)
			}
		})
	}
}
