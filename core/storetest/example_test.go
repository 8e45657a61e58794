package storetest_test

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/storetest"
)

// naive is a complete store in the simplest form: a map of lists and a lock. It finds RetryAfter by a search over
// future microseconds. Its lists grow with the requests, and are only cleared when their client returns: it is to be
// read, not to be run.
type naive struct {
	start time.Time

	mu     sync.Mutex
	counts map[identity][]entry // oldest first
}

// identity is the key of a count. It excludes the Requests of a limit, and the window of a Bucket.
type identity struct {
	limiter, rule, limit string
	algorithm            core.Algorithm
	window               time.Duration
	client               string
}

// entry is an admitted request. A Bucket has a single entry for all its used units.
type entry struct {
	at, units int64    // at is in microseconds
	owed      *big.Rat // of a Bucket, in microseconds, at that time
	owedFor   int64    // of a Bucket: the time during which any was owed, less the time that has paid for returned units
}

func newNaive() *naive {
	return &naive{start: time.Now(), counts: map[identity][]entry{}}
}

// Bind implements core.Store.
func (s *naive) Bind(rule core.Binding) (core.Ledger, error) {
	for _, l := range rule.Limits {
		if l.Algorithm > core.Bucket {
			return nil, fmt.Errorf("this store does not know the algorithm of limit %v", l)
		}
	}
	return &counts{s, rule}, nil
}

// now returns the time of a clock that never steps back: time.Since uses the monotonic clock.
func (s *naive) now() int64 { return s.start.Add(time.Since(s.start)).UnixMicro() }

// counts implements core.Ledger.
type counts struct {
	store *naive
	rule  core.Binding
}

// Immediate implements core.Immediate: no call waits except for the lock.
func (c *counts) Immediate() {}

func (c *counts) identity(l core.Limit, client string) identity {
	id := identity{c.rule.Name, c.rule.Rule, l.Name, l.Algorithm, l.Window, client}
	if l.Algorithm == core.Bucket {
		id.window = 0
	}
	return id
}

// Take implements core.Ledger.
func (c *counts) Take(_ context.Context, ask core.Ask) core.Decision {
	limits, charge := c.rule.Limits, false
	if ask.Override != nil {
		charge = ask.Override.Charge
		if ask.Override.Limits != nil {
			limits = ask.Override.Limits
		}
	}
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	refused := false
	for _, l := range limits {
		refused = refused || !charge && !fits(l, s.counts[c.identity(l, ask.Key)], now, ask.Cost)
	}
	var binding core.Decision
	for i, l := range limits {
		d := answer(l, s.counts[c.identity(l, ask.Key)], now, ask.Cost, charge)
		if i == 0 || binds(d, binding) {
			binding = d
		}
	}
	if refused || ask.Peek || ask.Cost == 0 {
		return binding
	}
	for _, l := range limits { // all are charged, at the same instant
		id := c.identity(l, ask.Key)
		s.counts[id] = add(l, s.counts[id], now, ask.Cost)
	}
	return binding
}

// answer returns the decision of a single limit.
func answer(l core.Limit, entries []entry, now, cost int64, charge bool) core.Decision {
	d := core.Decision{Limit: l, At: time.UnixMicro(now)}
	d.Allowed = charge || fits(l, entries, now, cost)
	if d.Allowed && cost > 0 {
		entries = add(l, entries, now, cost) // after the request
	}
	d.Remaining = max(0, l.Requests-used(l, entries, now))
	d.ResetAfter = resetAfter(l, entries, now)
	if !d.Allowed {
		d.RetryAfter = retryAfter(l, entries, now, cost)
	}
	return d
}

// add returns the entries with one more request.
func add(l core.Limit, entries []entry, now, cost int64) []entry {
	if l.Algorithm != core.Bucket {
		return append(counted(l, entries, now), entry{at: now, units: cost})
	}
	e := owedAt(l, entries, now)
	if e.owed.Add(e.owed, price(l, cost)); e.owed.Cmp(maxOwed) > 0 { // a charge
		e.owed.Set(maxOwed)
	}
	return []entry{e}
}

// maxOwed is the longest time that a Bucket can owe, in microseconds, and halfOwed is half of it.
var maxOwed, halfOwed = big.NewRat(1<<52, 1), big.NewRat(1<<51, 1)

// price returns the owed time of units by a Bucket, in microseconds.
func price(l core.Limit, units int64) *big.Rat {
	window := big.NewRat(l.Window.Microseconds(), l.Requests)
	return window.Mul(window, big.NewRat(units, 1))
}

// owedAt returns the entry of a Bucket at now. The owed time is a multiple of a microsecond divided by Requests.
func owedAt(l core.Limit, entries []entry, now int64) entry {
	e := entry{at: now, owed: new(big.Rat)}
	if len(entries) == 0 {
		return e
	}
	if e.owed.Sub(entries[0].owed, big.NewRat(now-entries[0].at, 1)); e.owed.Sign() <= 0 {
		return entry{at: now, owed: new(big.Rat)}
	}
	parts := ceilInt(e.owed.Mul(e.owed, big.NewRat(l.Requests, 1)))
	e.owed.SetFrac(parts, big.NewInt(l.Requests))
	e.owedFor = entries[0].owedFor + now - entries[0].at
	return e
}

// ceil returns the least whole number that is not below a number, which is not below 0.
func ceil(r *big.Rat) int64 { return ceilInt(r).Int64() }

func ceilInt(r *big.Rat) *big.Int {
	n := new(big.Int).Sub(r.Denom(), big.NewInt(1))
	return n.Quo(n.Add(n, r.Num()), r.Denom())
}

// binds reports whether a is the decision on the request rather than b, whose limit precedes a's.
func binds(a, b core.Decision) bool {
	switch {
	case a.Allowed != b.Allowed:
		return b.Allowed
	case !a.Allowed:
		return a.RetryAfter > b.RetryAfter
	case a.Remaining != b.Remaining:
		return a.Remaining < b.Remaining
	}
	return a.ResetAfter > b.ResetAfter
}

// mayCount reports whether a unit admitted at at may count at now.
func mayCount(l core.Limit, at, now int64) bool {
	w := l.Window.Microseconds()
	switch l.Algorithm {
	case core.SlidingCounter:
		return at/w >= now/w-1
	case core.Bucket:
		return true
	}
	return stamp(l, at) > now-w
}

// stamp returns the time of a unit in a log: in a CoarseLog the last microsecond of its slot.
func stamp(l core.Limit, at int64) int64 {
	slot := int64(1)
	if l.Algorithm == core.CoarseLog {
		slot = (l.Window.Microseconds() + 59) / 60
	}
	return at - at%slot + slot - 1
}

// counted returns the entries that may count at now, in a slice without spare capacity.
func counted(l core.Limit, entries []entry, now int64) []entry {
	i := sort.Search(len(entries), func(i int) bool { return mayCount(l, entries[i].at, now) })
	return entries[i:len(entries):len(entries)]
}

// used returns the number of units that count at now. It never grows without an add.
func used(l core.Limit, entries []entry, now int64) int64 {
	if l.Algorithm == core.Bucket {
		units := new(big.Rat).Quo(owedAt(l, entries, now).owed, price(l, 1))
		if units.Cmp(big.NewRat(core.MaxCounterRequests, 1)) > 0 {
			return core.MaxCounterRequests
		}
		return ceil(units)
	}
	w := l.Window.Microseconds()
	var previous, current int64
	for _, e := range counted(l, entries, now) {
		if l.Algorithm == core.SlidingCounter && e.at/w < now/w {
			previous += e.units
		} else {
			current += e.units
		}
	}
	elapsed := now % w
	return int64(float64(previous)*(float64(w-elapsed)/float64(w))) + current
}

func fits(l core.Limit, entries []entry, now, cost int64) bool {
	return cost == 0 || cost <= l.Requests-used(l, entries, now) // a sum could overflow
}

// retryAfter returns the time until the first microsecond at which the request fits.
func retryAfter(l core.Limit, entries []entry, now, cost int64) time.Duration {
	if cost > l.Requests {
		return core.Never
	}
	after := sort.Search(int(101*l.Window.Microseconds()), func(after int) bool {
		return fits(l, entries, now+int64(after), cost)
	})
	return time.Duration(after) * time.Microsecond
}

func resetAfter(l core.Limit, entries []entry, now int64) time.Duration {
	w := l.Window.Microseconds()
	entries = counted(l, entries, now)
	switch {
	case used(l, entries, now) == 0:
		return 0
	case l.Algorithm == core.SlidingCounter:
		return time.Duration(w-now%w) * time.Microsecond // until the fixed window ends
	case l.Algorithm == core.Bucket: // until it is full
		return time.Duration(ceil(owedAt(l, entries, now).owed)) * time.Microsecond
	}
	return time.Duration(stamp(l, entries[0].at)+w-now) * time.Microsecond // until the oldest leaves
}

// Usage implements core.Ledger.
func (c *counts) Usage(_ context.Context, client string) ([]core.Usage, error) {
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var uses []core.Usage
	for _, l := range c.rule.Limits {
		entries := s.counts[c.identity(l, client)]
		uses = append(uses, core.Usage{
			Used: used(l, entries, now), ResetAfter: resetAfter(l, entries, now), At: time.UnixMicro(now),
		})
	}
	return uses, nil
}

// Return implements core.Ledger.
func (c *counts) Return(_ context.Context, back core.Refund) (int64, error) {
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	now, at, returned := s.now(), back.At.UnixMicro(), back.Units
	limits := c.rule.Limits
	if back.Limits != nil {
		limits = back.Limits
	}
	for _, l := range limits {
		id := c.identity(l, back.Key)
		entries := counted(l, s.counts[id], now)
		if len(entries) == 0 || !mayCount(l, at, now) || used(l, entries, now) == 0 && l.Algorithm == core.Bucket {
			continue // no unit counts any longer
		}
		var rest []entry
		var taken int64
		if l.Algorithm == core.Bucket {
			rest, taken = takeBackOwed(l, entries[0], back)
		} else {
			rest, taken = takeBack(entries, at, back.Units)
		}
		s.counts[id], returned = rest, min(returned, taken)
	}
	return returned, nil
}

// takeBack removes up to units of the time at from entries. It returns the rest and the number of units removed.
func takeBack(entries []entry, at, units int64) (rest []entry, taken int64) {
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].at != at {
			continue
		}
		n := min(units-taken, entries[i].units)
		taken += n
		if entries[i].units -= n; entries[i].units == 0 {
			entries = slices.Delete(entries, i, i+1)
		}
	}
	return entries, taken
}

// takeBackOwed is takeBack for a Bucket: the time since the request has paid for a part of it, first for the units that
// stay, and cannot pay again.
func takeBackOwed(l core.Limit, e entry, back core.Refund) (rest []entry, taken int64) {
	passed, window := e.at-back.At.UnixMicro(), big.NewRat(l.Window.Microseconds(), 1)
	rest = []entry{e}
	e = owedAt(l, rest, e.at)
	switch {
	case passed < 0:
		return rest, 0
	case price(l, back.Cost).Cmp(halfOwed) > 0: // it may have been cut
		if e.owed.Cmp(window) > 0 {
			e.owed = window
		}
		return []entry{e}, back.Units
	case e.owed.Cmp(halfOwed) > 0:
		return rest, 0
	}
	since := big.NewRat(passed, 1)
	found := new(big.Rat).Add(e.owed, since)
	taken = min(back.Units, ceil(found.Quo(found, price(l, 1))))
	if price(l, back.Cost).Cmp(since) <= 0 {
		return rest, taken
	}
	kept, owedFor := price(l, back.Cost-back.Units), min(passed, e.owedFor)
	if kept.Cmp(big.NewRat(owedFor, 1)) < 0 {
		e.owedFor -= owedFor - ceil(kept)
		kept = big.NewRat(owedFor, 1)
	}
	e.owed = kept.Add(e.owed, kept.Sub(kept, price(l, back.Cost)))
	if e.owed.Sign() <= 0 {
		return nil, taken
	}
	return []entry{e}, taken
}

// Reset implements core.Ledger.
func (c *counts) Reset(_ context.Context, client string) error {
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range c.rule.Limits {
		delete(s.counts, c.identity(l, client))
	}
	return nil
}

// A store of your own is proved by the suite.
func Example() {
	var t *testing.T // the argument of TestStore
	storetest.Run(t, func(t *testing.T) core.Store { return newNaive() })
}
