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

// checkTimeout is the longest time that Check waits for a region.
const checkTimeout = 5 * time.Second

// checks counts how often regions were checked, by all names and by the names given here. A check leaves
// the longer window later, so that this never holds fewer by the same names.
var checks = core.Binding{Name: "regions.Check", Limits: []core.Limit{
	core.PerHour(1000).Named("checks"), core.Per(1000, time.Hour+2*checkTimeout).Named("longer"),
}}

// Check asks every region. Its error names regions that do not answer, round trips that are too
// long for Config.Timeout or LookEvery, and processes that gave other names or another mode within the
// last hour. It counts two units in each region. Call it when a program starts, and go on if it
// fails: it is advice. It waits for at most 5 s. A store's own Check says more about one region.
//
// The first request does the same in the background, and notes other names, if an observer takes notices.
func (s *Store) Check(ctx context.Context) error {
	if s == nil || s.regions == nil {
		return errUnmade
	}
	return (&rule{store: s}).checkAll(ctx)
}

func (r *rule) checkAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, checkTimeout, core.ErrTimeout)
	defer cancel()
	return r.store.everywhere(func(i int) error { return r.check(ctx, i) })
}

// begin compares the names, once, in the background, if an observer takes notices.
func (r *rule) begin() {
	if r.binding.Notice != nil {
		r.store.begun.Do(func() { go r.checkAll(context.Background()) })
	}
}

// check checks one region.
func (r *rule) check(ctx context.Context, i int) error {
	ledger, err := r.store.regions[i].store.Bind(checks)
	if err != nil {
		return err
	}
	names := fmt.Sprintf("strict=%v", r.store.config.Strict)
	for _, region := range r.store.regions {
		names += fmt.Sprintf(" %q", region.name)
	}
	var took time.Duration
	for _, key := range []string{names, "all"} { // the first may have to connect
		began := time.Now()
		if err := ledger.Take(ctx, core.Ask{Key: key, Cost: 1}).Err; err != nil {
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
	if i == r.store.here {
		return err
	}
	return errors.Join(err, r.store.checkRoundTrip(took))
}

// checkRoundTrip returns an error if a round trip is too long for the timeout of a rule, or for LookEvery.
func (s *Store) checkRoundTrip(took time.Duration) error {
	atLeast := func(need time.Duration, name string, have time.Duration, why string) error {
		if need <= have {
			return nil
		}
		return &errs.Error{Err: fmt.Errorf("a round trip takes %v, and %s is %v: it should be at least %v: %s",
			took.Round(time.Millisecond), name, have, need.Round(time.Millisecond), why)}
	}
	const name = "Config.Timeout of a limiter"
	timeout := cmp.Or(time.Duration(s.shortest.Load()), core.DefaultTimeout)
	if s.table == nil {
		return atLeast(3*took, name, timeout, "the others are asked for what one region refuses")
	}
	return errors.Join(atLeast(2*took, name, timeout, "a burst waits for a look"),
		atLeast(took, "regions.Config.LookEvery", s.table.every, "a look is sent before the one before is answered"))
}
