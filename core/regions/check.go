package regions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/errs"
	"github.com/sashlimit/sash/internal/hidden"
)

// checkLimit counts how often regions were checked, by all names and by the names given here.
var checkLimit = core.PerHour(1000).Named("checks")

// checkTimeout is the most that Check waits for a region.
const checkTimeout = 5 * time.Second

// Check asks every region, and returns what is wrong: regions that do not answer, round trips that are too
// long for Config.Timeout or Every, and processes that gave other names or another mode within the
// last hour. It counts two units in each region. Call it when a program starts, and go on if it
// fails: it is advice. It waits for at most 5 s. A store's own Check says more about one region.
func (s *Store) Check(ctx context.Context) error {
	if s == nil || s.regions == nil {
		return errUnmade
	}
	ctx, cancel := context.WithTimeoutCause(ctx, checkTimeout, core.ErrTimeout)
	defer cancel()
	r := &rule{Store: s}
	return r.everywhere(func(i int) error { return s.check(ctx, i) })
}

// check returns what is wrong with a region.
func (s *Store) check(ctx context.Context, i int) error {
	ledger, err := s.regions[i].store.Bind(core.Binding{Name: "regions.Check", Limits: []core.Limit{checkLimit}})
	if err != nil {
		return err
	}
	own := fmt.Sprintf("strict=%v", s.config.Strict)
	for _, r := range s.regions {
		own += fmt.Sprintf(" %q", r.name)
	}
	var used [2]int64
	var fastest time.Duration
	for k, key := range []string{own, "all"} { // so a check that ends in between is none of other names
		began := time.Now()
		if _, err := ledger.Take(ctx, core.Ask{Key: key, Cost: 1}); err != nil {
			return err
		}
		if took := time.Since(began); k == 0 || took < fastest {
			fastest = took
		}
	}
	for k, key := range []string{own, "all"} {
		uses, err := ledger.Usage(ctx, key)
		if err != nil {
			return err
		}
		used[k] = uses[0].Used
	}
	return errors.Join(s.checkRoundTrip(fastest, i == s.here), checkNames(used[0], used[1], own))
}

// checkNames returns an error if more checks were counted than with these names.
func checkNames(own, all int64, names string) error {
	if all <= own {
		return nil
	}
	return fmt.Errorf("sash: %d checks of the last hour were by processes with other regions, or in the other mode, than "+
		"%s: their shares do not fit together: give all the same regions.Config but for Here",
		all-own, strings.ReplaceAll(names, `"`, ""))
}

// checkRoundTrip returns an error if a round trip is too long for the timeout of a rule, or for Every.
func (s *Store) checkRoundTrip(took time.Duration, here bool) error {
	timeout := time.Duration(s.shortest.Load())
	if timeout == 0 {
		timeout = hidden.DefaultTimeout
	}
	need, why := 2*took, "a burst waits for a look"
	if s.config.Strict {
		need, why = 3*took, "what one region refuses the others are asked for"
	}
	if here || need <= timeout {
		return nil
	}
	return &errs.Worded{Err: fmt.Errorf("a round trip takes %v, and Config.Timeout of a limiter is %v: it should be at "+
		"least %v: %s", took.Round(time.Millisecond), timeout, need.Round(time.Millisecond), why)}
}
