package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sashlimit/sash/core"
)

// Fixed returns a store that gives every request of every client the same answer, for tests of a program's reaction:
//
//	storetest.Fixed(core.Decision{Allowed: true, Remaining: 7})         // admitted
//	storetest.Fixed(core.Decision{RetryAfter: 30 * time.Second})        // refused, in HTTP with 429
//	storetest.Fixed(core.Decision{RetryAfter: core.Never})              // refused for good
//	storetest.Fixed(core.Decision{Err: errors.New("no route to host")}) // an outage
//	storetest.Fixed(core.Decision{Err: core.ErrTimeout})                // an outage: too slow, but without a wait
//
// The answer has the fields of d, except for two that Fixed fills in. An empty Limit becomes the first limit of each
// rule. Any other Limit selects the rule's limit of the same Name, or without a Name of the same Window and Algorithm.
// A zero At becomes the time of the request.
//
// With an Err every call fails with it, and Config.OnStoreError decides. Without one a Peek and a request of cost 0 get
// the answer too, a Charge is admitted, a Return takes back all units, and a Reset does nothing. Usage has the answer's
// numbers for its limit, and no used units for others.
//
// [core.New] and [core.Limiter.Rule] return an error for a Decision that no store gives: a refusal without RetryAfter,
// or more Remaining than the limit. The store is safe for concurrent use.
//
// Each call returns a new store, so that one may be the fallback of another with the same answer.
//
// A program may use Fixed too, to show an outage for example. It then links little of package testing, and none of its
// flags.
func Fixed(d core.Decision) core.Store { return &fixed{d} }

// fixed is the store of Fixed.
type fixed struct{ answer core.Decision }

// Bind implements core.Store.
func (s *fixed) Bind(rule core.Binding) (core.Ledger, error) {
	if err := checkDecision(&s.answer); err != nil {
		return nil, fmt.Errorf("sash: storetest.Fixed: %w", err)
	}
	binding := slices.IndexFunc(rule.Limits, s.binds)
	if binding < 0 {
		return nil, fmt.Errorf("sash: storetest.Fixed: the Decision has the Limit %v, which is none of %v: "+
			"leave it out for the first limit of each rule", s.answer.Limit, rule.Limits)
	}
	if n := rule.Limits[binding].Requests; s.answer.Remaining > n {
		return nil, fmt.Errorf("sash: storetest.Fixed: the Decision has the Remaining %d of a limit of %d: "+
			"give at most %d", s.answer.Remaining, n, n)
	}
	return fixedLedger{s.answer, rule.Limits, binding}, nil
}

// binds reports whether the answer selects l, a limit of a rule.
func (s *fixed) binds(l core.Limit) bool {
	given := s.answer.Limit
	return given == (core.Limit{}) ||
		given.Name == l.Name || given.Name == "" && given.Window == l.Window && given.Algorithm == l.Algorithm
}

// checkDecision returns an error if no store can give d.
func checkDecision(d *core.Decision) error {
	switch {
	case d.Err != nil && d.Allowed:
		return errors.New("the Decision has Allowed and Err: with Err the policy decides, so leave Allowed out")
	case d.Err != nil:
		return nil
	case d.Allowed && d.RetryAfter != 0:
		return fmt.Errorf("the Decision is allowed and has the RetryAfter %v: give one of both", d.RetryAfter)
	case !d.Allowed && d.RetryAfter <= 0:
		return fmt.Errorf("the Decision is a refusal and has the RetryAfter %v: "+
			"give a positive one, or core.Never", d.RetryAfter)
	case d.Remaining < 0 || d.ResetAfter < 0:
		return fmt.Errorf("the Decision has the Remaining %d and the ResetAfter %v: neither can be negative",
			d.Remaining, d.ResetAfter)
	case d.Source > core.SourceLeased:
		return fmt.Errorf("the Decision has the Source %v: a store gives %v, %v or %v",
			d.Source, core.SourceCounted, core.SourceCached, core.SourceLeased)
	}
	return nil
}

// fixedLedger answers the requests of a rule.
type fixedLedger struct {
	answer  core.Decision
	limits  []core.Limit
	binding int // index of the answer's limit
}

// Immediate implements core.Immediate.
func (fixedLedger) Immediate() {}

// Take implements core.Ledger.
func (c fixedLedger) Take(_ context.Context, ask core.Ask) core.Decision {
	d := c.answer
	if d.Err != nil {
		return core.Decision{Err: d.Err}
	}
	d.Limit, d.At = c.limits[c.binding], c.at()
	if ask.Override == nil {
		return d
	}
	if ask.Override.Limits != nil {
		d.Limit = ask.Override.Limits[c.binding]
		d.Remaining = min(d.Remaining, d.Limit.Requests)
	}
	if ask.Override.Charge {
		d.Allowed, d.RetryAfter = true, 0
	}
	return d
}

// at returns the time of an answer.
func (c fixedLedger) at() time.Time {
	if c.answer.At.IsZero() {
		return time.Now().Truncate(time.Microsecond)
	}
	return c.answer.At
}

// Usage implements core.Ledger.
func (c fixedLedger) Usage(context.Context, string) ([]core.Usage, error) {
	if c.answer.Err != nil {
		return nil, c.answer.Err
	}
	uses := make([]core.Usage, len(c.limits))
	at := c.at()
	for i := range uses {
		uses[i].At = at
	}
	uses[c.binding].Used = max(0, c.limits[c.binding].Requests-c.answer.Remaining)
	uses[c.binding].ResetAfter = c.answer.ResetAfter
	return uses, nil
}

// Return implements core.Ledger.
func (c fixedLedger) Return(_ context.Context, ask core.Refund) (int64, error) {
	if c.answer.Err != nil {
		return 0, c.answer.Err
	}
	return ask.Units, nil
}

// Reset implements core.Ledger.
func (c fixedLedger) Reset(context.Context, string) error { return c.answer.Err }
