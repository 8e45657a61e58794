package regions

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
)

var errDown = errors.New("down")

// stub is a ledger with a given answer. It counts its calls.
type stub struct {
	core.Ledger
	d        core.Decision
	err      error
	reset    time.Duration
	leave    func() // called during a Take
	calls    int    // of all methods
	mayAdmit int
}

func (l *stub) Take(context.Context, core.Ask) core.Decision {
	l.mayAdmit++
	if l.calls++; l.leave != nil {
		l.leave()
	}
	d := l.d
	d.Err = l.err
	return d
}

func (l *stub) Usage(context.Context, string) ([]core.Usage, error) {
	l.calls++
	return []core.Usage{{Used: 1, ResetAfter: l.reset}}, l.err
}

func (l *stub) Return(_ context.Context, back core.Refund) (int64, error) {
	l.calls++
	return back.Units, nil
}

// newStubRule returns a rule of a limit of 8 whose regions ap, eu and us are stubs, of all their counts and
// of their shares.
func newStubRule(c Config) (r *rule, whole, shares [3]*stub) {
	c.Local, c.Stores = cmp.Or(c.Local, "ap"), three()
	limits := []core.Limit{core.PerDay(8).Named("limit")}
	r = core.Must(core.Must(New(c)).newRule(core.Binding{Name: "api", Limits: limits}))
	for i := range whole {
		whole[i], shares[i] = new(stub), new(stub)
		r.remotes[i].whole, r.remotes[i].share = whole[i], shares[i]
	}
	return r, whole, shares
}

// TestUsageAndReturn: usage is of all regions, or of the home alone, and a unit goes back to where it was counted.
func TestUsageAndReturn(t *testing.T) {
	for resets, want := range map[[3]time.Duration]time.Duration{
		{0, 0, 0}: 0, {0, 5, 3}: 3, {3, 5, 0}: 3, {5, 0, 3}: 3, {0, 0, 4}: 4, {4, 0, 0}: 4, {3, 4, 5}: 3,
	} {
		r, whole, _ := newStubRule(Config{})
		for i := range whole {
			whole[i].reset = resets[i]
		}
		if uses, err := r.Usage(t.Context(), "k"); err != nil || uses[0].Used != 3 || uses[0].ResetAfter != want {
			t.Errorf("%v: %+v, %v, want fewer after %v", resets, uses, err, want)
		}
	}
	for _, c := range []struct {
		home, region string
		calls        [6]int // all counts of the regions, and their shares
		used         int64  // or 0 for an error
	}{
		{"", "", [6]int{3: 1}, 3}, {"", "us", [6]int{5: 1}, 3}, {"ap", "", [6]int{0: 1}, 1},
		{"eu", "eu", [6]int{1: 1}, 1}, {"", "mars", [6]int{}, 3}, {"mars", "", [6]int{}, 0},
	} {
		r, whole, shares := newStubRule(Config{Home: func(string) string { return c.home }})
		n, err := r.Return(t.Context(), core.Refund{Key: "k", Units: 2, Region: c.region})
		var calls [6]int
		for i := range 3 {
			calls[i], calls[3+i] = whole[i].calls, shares[i].calls
		}
		if fails := c.calls == [6]int{}; calls != c.calls || (err != nil) != fails || (n == 2) == fails {
			t.Errorf("%+v: gave %d, %v, by %v", c, n, err, calls)
		}
		uses, err := r.Usage(t.Context(), "k")
		if (err != nil) != (c.used == 0) || err == nil && uses[0].Used != c.used {
			t.Errorf("%+v: %+v, %v", c, uses, err)
		}
	}
}
