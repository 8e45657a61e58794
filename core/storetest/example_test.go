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

// naive is a whole store, as plain as can be: a map of lists, and one lock. It finds RetryAfter
// by a search over the microseconds to come. Its lists grow with the requests, and what clients
// leave behind stays until they come again: it is to be read, not to be run.
type naive struct {
	began time.Time

	mu     sync.Mutex
	counts map[identity][]entry // oldest first
}

// identity is what makes a count the same count. The Requests of a limit are no part of it.
type identity struct {
	limiter, rule, limit string
	algorithm            core.Algorithm
	window               time.Duration
	client               string
}

// entry is an admitted request. A Bucket has a single one, of all that is used.
type entry struct {
	at, units int64    // at is in microseconds
	used      *big.Rat // of a Bucket, at that time
	rate      int64    // of a Bucket: how many units come back in a window
}

func newNaive() *naive {
	return &naive{began: time.Now(), counts: map[identity][]entry{}}
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

// now is a clock that never steps back: the difference of two times of one process is
// reckoned by its monotonic clock.
func (s *naive) now() int64 { return s.began.Add(time.Since(s.began)).UnixMicro() }

// counts implements core.Ledger.
type counts struct {
	store *naive
	rule  core.Binding
}

// Immediate implements core.Immediate: nothing here waits but for the lock.
func (c *counts) Immediate() {}

func (c *counts) identity(l core.Limit, client string) identity {
	return identity{c.rule.Name, c.rule.Rule, l.Name, l.Algorithm, l.Window, client}
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
		s.counts[id] = with(l, s.counts[id], now, ask.Cost)
	}
	return binding
}

// answer is the decision of a single limit.
func answer(l core.Limit, entries []entry, now, cost int64, charge bool) core.Decision {
	d := core.Decision{Limit: l, At: time.UnixMicro(now)}
	d.Allowed = charge || fits(l, entries, now, cost)
	if d.Allowed && cost > 0 {
		entries = with(l, entries, now, cost) // as it will be
	}
	d.Remaining = max(0, l.Requests-used(l, entries, now))
	d.ResetAfter = resetAfter(l, entries, now)
	if !d.Allowed {
		d.RetryAfter = retryAfter(l, entries, now, cost)
	}
	return d
}

// with returns the entries with a request more.
func with(l core.Limit, entries []entry, now, cost int64) []entry {
	if l.Algorithm != core.Bucket {
		return append(counted(l, entries, now), entry{at: now, units: cost})
	}
	level := new(big.Rat).Add(left(l, entries, now), new(big.Rat).SetInt64(cost))
	whole := new(big.Int).Quo(level.Num(), level.Denom()).Int64()
	rate := max(l.Requests, (whole+100)/100) // a debt is paid in 100 windows
	return []entry{{at: now, used: level, rate: rate}}
}

// left returns what is used of a Bucket.
func left(l core.Limit, entries []entry, now int64) *big.Rat {
	if len(entries) == 0 {
		return new(big.Rat)
	}
	e := entries[0]
	back := new(big.Rat).SetFrac64(now-e.at, l.Window.Microseconds())
	level := back.Sub(e.used, back.Mul(back, new(big.Rat).SetInt64(e.rate)))
	if level.Sign() < 0 {
		return new(big.Rat)
	}
	return level
}

// ceil returns the least whole number that is not below a number, which is not below 0.
func ceil(r *big.Rat) int64 {
	up := new(big.Int).Sub(r.Denom(), big.NewInt(1))
	return up.Quo(up.Add(up, r.Num()), r.Denom()).Int64()
}

// binds reports whether a is the decision to tell of, rather than b, which was listed first.
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

// matters reports whether a unit of the time at plays a part in decisions at now.
func matters(l core.Limit, at, now int64) bool {
	w := l.Window.Microseconds()
	switch l.Algorithm {
	case core.SlidingCounter:
		return at/w >= now/w-1
	case core.Bucket:
		return true
	}
	return stamp(l, at) > now-w
}

// stamp is the time of a unit for a log: in a CoarseLog the last microsecond of its slot.
func stamp(l core.Limit, at int64) int64 {
	slot := int64(1)
	if l.Algorithm == core.CoarseLog {
		slot = (l.Window.Microseconds() + 59) / 60
	}
	return at - at%slot + slot - 1
}

// counted returns the entries that count at now, in a slice with no room behind it.
func counted(l core.Limit, entries []entry, now int64) []entry {
	i := sort.Search(len(entries), func(i int) bool { return matters(l, entries[i].at, now) })
	return entries[i:len(entries):len(entries)]
}

// used is how many units count at now. It never grows while nothing is added.
func used(l core.Limit, entries []entry, now int64) int64 {
	if l.Algorithm == core.Bucket {
		return ceil(left(l, entries, now))
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

// retryAfter looks for the first microsecond at which the request fits.
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
		all := left(l, entries, now)
		all.Mul(all, new(big.Rat).SetFrac64(w, entries[0].rate))
		return time.Duration(ceil(all)) * time.Microsecond
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
	for _, l := range c.rule.Limits {
		id := c.identity(l, back.Key)
		entries := counted(l, s.counts[id], now)
		if len(entries) == 0 || !matters(l, at, now) || used(l, entries, now) == 0 && l.Algorithm == core.Bucket {
			continue // all units count no more
		}
		var left []entry
		var taken int64
		if l.Algorithm == core.Bucket {
			left, taken = pourBack(l, entries[0], at, back.Units)
		} else {
			left, taken = takeBack(entries, at, back.Units)
		}
		s.counts[id], returned = left, min(returned, taken)
	}
	return returned, nil
}

// takeBack takes up to units of the time at out of entries. It returns what is left, and how
// many units it took.
func takeBack(entries []entry, at, units int64) (left []entry, taken int64) {
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

// pourBack is takeBack for a Bucket, where what came back in the window since has been found too.
func pourBack(l core.Limit, e entry, at, units int64) (left []entry, taken int64) {
	w := l.Window.Microseconds()
	switch {
	case at > e.at:
		return []entry{e}, 0
	case at <= e.at-w:
		return []entry{e}, units
	}
	since := new(big.Int).Mul(big.NewInt(e.at-at), big.NewInt(e.rate))
	taken = min(units, ceil(e.used)+since.Quo(since, big.NewInt(w)).Int64())
	if e.used = new(big.Rat).Sub(e.used, new(big.Rat).SetInt64(units)); e.used.Sign() <= 0 {
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
