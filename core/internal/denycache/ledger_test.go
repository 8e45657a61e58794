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

// told is a next link that answers as it is told, and counts what it is asked.
type told struct {
	core.Ledger
	answer core.Decision
	err    error  // the answer's, and that of other calls
	leave  func() // called during a Take
	asked  int
}

func (n *told) Take(context.Context, core.Ask) core.Decision {
	if n.asked++; n.leave != nil {
		n.leave()
	}
	d := n.answer
	d.Err = n.err
	return d
}

func (n *told) Return(_ context.Context, back core.Refund) (int64, error) {
	n.asked++
	return back.Units, n.err
}

func (n *told) Reset(context.Context, string) error {
	n.asked++
	return n.err
}

// refusing returns a ledger that remembers a refusal of the client k, and the link behind it.
func refusing(t *testing.T) (core.Ledger, *told) {
	t.Helper()
	next := &told{answer: refusalFor(time.Hour)}
	l := New().Wrap(bound, next)
	if d := l.Take(t.Context(), core.Ask{Key: "k", Cost: 1}); d != next.answer {
		t.Fatalf("%+v", d)
	}
	time.Sleep(ms)
	next.asked, next.answer = 0, core.Decision{Allowed: true}
	return l, next
}

// remembers reports whether the client k is refused without a question.
func (n *told) remembers(t *testing.T, l core.Ledger) bool {
	t.Helper()
	before := n.asked
	d := l.Take(t.Context(), core.Ask{Key: "k", Cost: 1})
	if n.asked == before && (d.Err != nil || d.Allowed || d.Source != core.SourceCached) {
		t.Fatalf("%+v", d)
	}
	return n.asked == before
}

// TestUnsent: once a second a refusal is asked about. If that question was certainly not sent, the refusal answers, and
// else the error does.
func TestUnsent(t *testing.T) {
	for stage := core.StageUnknown; stage <= core.StageFallback; stage++ {
		synctest.Test(t, func(t *testing.T) {
			l, next := refusing(t)
			time.Sleep(AskAgain)
			next.answer, next.err = core.Decision{}, core.AtStage(stage, errDown)
			next.leave = func() { time.Sleep(AskAgain) } // until another caller is to ask
			d := l.Take(t.Context(), core.Ask{Key: "k", Cost: 1})
			unsent := stage == core.StageUnavailable || stage == core.StageQueued || stage == core.StageConnect
			if next.asked != 1 || (d.Err == nil) != unsent || (d.Source == core.SourceCached) != unsent || d.Allowed {
				t.Errorf("%v: %+v, asked %d times", stage, d, next.asked)
			}
			if err := l.Take(t.Context(), core.Ask{Key: "k", Cost: 2}).Err; !errors.Is(err, errDown) {
				t.Errorf("%v: nothing is remembered of the cost, and the error is %v", stage, err)
			}
		})
	}
}

// TestAskerLeaves: a caller that leaves while it asks gives its turn to another soon.
func TestAskerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, next := refusing(t)
		time.Sleep(AskAgain)
		ctx, cancel := context.WithCancel(t.Context())
		next.err, next.leave = context.Canceled, cancel
		if err := l.Take(ctx, core.Ask{Key: "k", Cost: 1}).Err; !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
		next.err, next.leave = nil, nil
		if !next.remembers(t, l) {
			t.Error("another asks at once")
		}
		time.Sleep(turn)
		if next.remembers(t, l) {
			t.Error("no other asks")
		}
	})
}

// TestOverrides: what may have been counted although the rule's limits refuse ends a refusal; what counts nothing, or
// ahead of time, does not, and is not refused from memory.
func TestOverrides(t *testing.T) {
	limits := []core.Limit{core.PerHour(5)}
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
		"by limits":               {core.Ask{Cost: 1, Override: lowered}, nil, false, true},
		"refused by limits":       {core.Ask{Cost: 1, Override: lowered}, nil, true, false},
		"look by limits":          {core.Ask{Cost: 1, Peek: true, Override: lowered}, nil, false, false},
		"ahead":                   {core.Ask{Cost: 1, Override: &core.Override{Ahead: 1}}, nil, true, false},
		"ahead, which failed":     {core.Ask{Cost: 1, Override: &core.Override{Ahead: time.Second}}, errDown, false, false},
		"another cost, as usual":  {core.Ask{Cost: 2}, nil, true, false},
		"a charge, by other ones": {core.Ask{Cost: 1, Override: charged}, nil, false, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, next := refusing(t)
			if next.err = c.err; c.refused {
				next.answer = refusalFor(time.Hour)
			} else if c.err != nil {
				next.answer = core.Decision{}
			}
			c.ask.Key = "k"
			want := next.answer
			want.Err = c.err
			if d := l.Take(t.Context(), c.ask); next.asked != 1 || d != want {
				t.Errorf("%s: %+v, asked %d times", name, d, next.asked)
			}
			next.err = nil
			if got := next.remembers(t, l); got == c.ends {
				t.Errorf("%s: the refusal is remembered after it: %v", name, got)
			}
		})
	}
}

// TestAheadIsNotNoted: the refusal of what is counted ahead of time is no refusal of the client.
func TestAheadIsNotNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &told{answer: refusalFor(time.Hour)}
		l := New().Wrap(bound, next)
		ahead := core.Ask{Key: "k", Cost: 1, Override: &core.Override{Ahead: time.Second}}
		if err := l.Take(t.Context(), ahead).Err; err != nil {
			t.Fatal(err)
		}
		if next.remembers(t, l) {
			t.Error("it is remembered")
		}
	})
}

// TestEnds: a return and a reset end the refusals of the client, also if they fail; a reset whose context has ended
// does nothing.
func TestEnds(t *testing.T) {
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
			l, next := refusing(t)
			next.err = c.err
			if err := c.do(l); !errors.Is(err, c.err) || (next.asked == 1) != c.ends {
				t.Errorf("%s: %v, asked %d times", name, err, next.asked)
			}
			next.err = nil
			if got := next.remembers(t, l); got == c.ends {
				t.Errorf("%s: the refusal is remembered after it: %v", name, got)
			}
		})
	}
}
