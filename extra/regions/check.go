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

// checkTimeout is Check's timeout for a region.
const checkTimeout = 5 * time.Second

// checks counts the checks of a region by all processes, and the checks by processes with the same names. A check
// leaves the longer window later, so it never holds fewer checks for the same names.
var checks = core.Binding{Name: "regions.Check", Limits: []core.Limit{
	core.PerHour(1000).Named("checks"), core.Per(1000, time.Hour+2*checkTimeout).Named("longer"),
}}

// Check sends requests to every region. Its error names regions that do not answer, round trips that are too long for
// Config.Timeout or PollInterval, and processes that used other names or another mode within the last hour. It counts
// two units in each region, and waits for at most 5 s. Call it when a program starts, and go on if it fails: it is
// advice. A store's own Check examines one region more closely.
//
// If an observer receives notices, the first request starts the same check in the background, which sends a notice of
// other names.
func (s *Store) Check(ctx context.Context) error {
	if s == nil || s.regions == nil {
		return errZeroStore
	}
	return (&rule{store: s}).checkAll(ctx)
}

func (r *rule) checkAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, checkTimeout, core.ErrTimeout)
	defer cancel()
	return r.store.forEachRegion(func(i int) error { return r.check(ctx, i) })
}

// checkOnce starts the only check in the background, if an observer receives notices.
func (r *rule) checkOnce() {
	if r.binding.Notice != nil {
		r.store.checked.Do(func() { go r.checkAll(context.Background()) })
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
	var roundTrip time.Duration
	for _, key := range []string{names, "all"} { // the first may include a new connection
		sent := time.Now()
		if err := ledger.Take(ctx, core.Ask{Key: key, Cost: 1}).Err; err != nil {
			return err
		}
		roundTrip = time.Since(sent)
	}
	all, err := ledger.Usage(ctx, "all")
	same, failed := ledger.Usage(ctx, names)
	if err := cmp.Or(err, failed); err != nil {
		return err
	}
	if others := all[0].Used - same[1].Used; others > 0 {
		text := fmt.Sprintf("%d checks of the last hour were by processes with other regions or another mode than %s: "+
			"their shares do not sum to the limit: give all the same regions.Config except for Local", others, names)
		r.notice(notice.RegionNames, text)
		err = errors.New("sash: " + text)
	}
	if i == r.store.local {
		return err
	}
	return errors.Join(err, r.store.checkRoundTrip(roundTrip))
}

// checkRoundTrip returns an error if a round trip is too long for the timeout of a rule, or for PollInterval.
func (s *Store) checkRoundTrip(roundTrip time.Duration) error {
	atLeast := func(need time.Duration, name string, have time.Duration, why string) error {
		if need <= have {
			return nil
		}
		return &errs.Error{Err: fmt.Errorf("a round trip takes %v, and %s is %v: it should be at least %v: %s",
			roundTrip.Round(time.Millisecond), name, have, need.Round(time.Millisecond), why)}
	}
	const name = "Config.Timeout of a limiter"
	timeout := cmp.Or(time.Duration(s.shortest.Load()), core.DefaultTimeout)
	if s.table == nil {
		return atLeast(3*roundTrip, name, timeout, "a request that one region refuses goes to the others")
	}
	return errors.Join(atLeast(2*roundTrip, name, timeout, "a burst waits for a poll"),
		atLeast(roundTrip, "regions.Config.PollInterval", s.table.every, "a poll starts before the previous one ends"))
}
