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

// told is a ledger that answers as it is told, and counts what it is asked.
type told struct {
	core.Ledger
	d     core.Decision
	err   error
	reset time.Duration
	leave func() // called during a Take
	asked int    // all questions
	takes int
}

func (l *told) Take(context.Context, core.Ask) core.Decision {
	l.takes++
	if l.asked++; l.leave != nil {
		l.leave()
	}
	d := l.d
	d.Err = l.err
	return d
}

func (l *told) Usage(context.Context, string) ([]core.Usage, error) {
	l.asked++
	return []core.Usage{{Used: 1, ResetAfter: l.reset}}, l.err
}

func (l *told) Return(_ context.Context, back core.Refund) (int64, error) {
	l.asked++
	return back.Units, nil
}

// toldRule returns a rule of a limit of 8 whose regions ap, eu and us answer as they are told, of all their counts and
// of their shares.
func toldRule(t *testing.T, c Config) (r *rule, whole, shares [3]*told) {
	c.Here, c.Stores = cmp.Or(c.Here, "ap"), three()
	limits := []core.Limit{core.PerDay(8).Named("limit")}
	r, err := newStore(t, c).newRule(core.Binding{Name: "api", Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		whole[i], shares[i] = new(told), new(told)
		r.ledgers[i].whole, r.ledgers[i].share = whole[i], shares[i]
	}
	return r, whole, shares
}

// TestUsageAndReturn: usage is of all regions, or of the home alone, and a unit goes back to where it was counted.
func TestUsageAndReturn(t *testing.T) {
	for resets, want := range map[[3]time.Duration]time.Duration{
		{0, 0, 0}: 0, {0, 5, 3}: 3, {3, 5, 0}: 3, {5, 0, 3}: 3, {0, 0, 4}: 4, {4, 0, 0}: 4, {3, 4, 5}: 3,
	} {
		r, whole, _ := toldRule(t, Config{})
		for i := range whole {
			whole[i].reset = resets[i]
		}
		if uses, err := r.Usage(t.Context(), "k"); err != nil || uses[0].Used != 3 || uses[0].ResetAfter != want {
			t.Errorf("%v: %+v, %v, want fewer after %v", resets, uses, err, want)
		}
	}
	for _, c := range []struct {
		home, region string
		asked        [6]int // all counts of the regions, and their shares
		used         int64  // or 0 for an error
	}{
		{"", "", [6]int{3: 1}, 3}, {"", "us", [6]int{5: 1}, 3}, {"ap", "", [6]int{0: 1}, 1}, {"eu", "eu", [6]int{1: 1}, 1},
		{"", "mars", [6]int{}, 3}, {"mars", "", [6]int{}, 0},
	} {
		r, whole, shares := toldRule(t, Config{Home: func(string) string { return c.home }})
		n, err := r.Return(t.Context(), core.Refund{Key: "k", Units: 2, Region: c.region})
		asked := [6]int{whole[0].asked, whole[1].asked, whole[2].asked, shares[0].asked, shares[1].asked, shares[2].asked}
		if fails := c.asked == [6]int{}; asked != c.asked || (err != nil) != fails || (n == 2) == fails {
			t.Errorf("%+v: gave %d, %v, by %v", c, n, err, asked)
		}
		uses, err := r.Usage(t.Context(), "k")
		if (err != nil) != (c.used == 0) || err == nil && uses[0].Used != c.used {
			t.Errorf("%+v: %+v, %v", c, uses, err)
		}
	}
}
