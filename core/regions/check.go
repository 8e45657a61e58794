package regions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/errs"
	"github.com/sashlimit/sash/internal/notice"
)

// checkTimeout is the most that Check waits for a region.
const checkTimeout = 5 * time.Second

// checks counts how often regions were checked, by all names and by the names given here. A check leaves
// the longer window later, so that this never holds fewer by the same names.
var checks = core.Binding{Name: "regions.Check", Limits: []core.Limit{
	core.PerHour(1000).Named("checks"), core.Per(1000, time.Hour+2*checkTimeout).Named("longer"),
}}

// Check asks every region, and returns what is wrong: regions that do not answer, round trips that are too
// long for Config.Timeout or Every, and processes that gave other names or another mode within the
// last hour. It counts two units in each region. Call it when a program starts, and go on if it
// fails: it is advice. It waits for at most 5 s. A store's own Check says more about one region.
//
// The first request asks too, in the background, if an observer hears of notices, and tells of other names.
func (s *Store) Check(ctx context.Context) error {
	if s == nil || s.regions == nil {
		return errUnmade
	}
	return (&rule{Store: s}).checkAll(ctx)
}

func (r *rule) checkAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, checkTimeout, core.ErrTimeout)
	defer cancel()
	return r.everywhere(func(i int) error { return r.check(ctx, i) })
}

// begin compares the names, once, in the background, if an observer would hear of others.
func (r *rule) begin() {
	if r.Notice != nil {
		r.begun.Do(func() { go r.checkAll(context.Background()) })
	}
}

// check returns what is wrong with a region.
func (r *rule) check(ctx context.Context, i int) error {
	ledger, err := r.regions[i].store.Bind(checks)
	if err != nil {
		return err
	}
	names := fmt.Sprintf("strict=%v", r.config.Strict)
	for _, region := range r.regions {
		names += fmt.Sprintf(" %q", region.name)
	}
	var took time.Duration
	for _, key := range []string{names, "all"} { // the first may have to connect
		began := time.Now()
		if _, err := ledger.Take(ctx, core.Ask{Key: key, Cost: 1}); err != nil {
			return err
		}
		took = time.Since(began)
	}
	all, err := ledger.Usage(ctx, "all")
	same, failed := ledger.Usage(ctx, names)
	if err := cmp.Or(err, failed); err != nil {
		return err
	}
	if others := all[0].Used - same[1].Used; others > 0 {
		text := fmt.Sprintf("%d checks of the last hour were by processes with other regions or another mode than %s: "+
			"their shares do not fit together: give all the same regions.Config but for Here", others, names)
		r.notice(notice.RegionNames, text)
		err = errors.New("sash: " + text)
	}
	if i == r.here {
		return err
	}
	return errors.Join(err, r.checkRoundTrip(took))
}

// checkRoundTrip returns an error if a round trip is too long for the timeout of a rule, or for Every.
func (s *Store) checkRoundTrip(took time.Duration) error {
	atLeast := func(need time.Duration, name string, have time.Duration, why string) error {
		if need <= have {
			return nil
		}
		return &errs.Worded{Err: fmt.Errorf("a round trip takes %v, and %s is %v: it should be at least %v: %s",
			took.Round(time.Millisecond), name, have, need.Round(time.Millisecond), why)}
	}
	const name = "Config.Timeout of a limiter"
	timeout := cmp.Or(time.Duration(s.shortest.Load()), core.DefaultTimeout)
	if s.table == nil {
		return atLeast(3*took, name, timeout, "what one region refuses the others are asked for")
	}
	return errors.Join(atLeast(2*took, name, timeout, "a burst waits for a look"),
		atLeast(took, "regions.Config.Every", s.table.every, "a look is sent before the one before is answered"))
}
