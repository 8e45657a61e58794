package lease

import (
	"time"

	"github.com/sashlimit/sash/core"
)

const (
	MinLifetime = time.Millisecond
	MaxLifetime = time.Minute

	// MinSize is the least that a lease may be of: with one unit it would be a request.
	MinSize = 2

	// part says that a lease is at most this part of a limit, and lasts at most this part of its window. That is less
	// than the [window.Allowance]: what is further ahead of the server's clock would count from then on, and what is
	// spent later for less than a window (TestLeaseStepBack in script).
	part = 10
)

// Terms are how many units a lease may be of, and how long it lasts.
type Terms struct {
	Size     int64
	Lifetime time.Duration
}

// For returns the terms for a rule with these limits, and whether the rule is leased at all: a lease must be worth a
// request, and a counter could not say when units that were taken ahead stop counting.
func (t Terms) For(limits []core.Limit) (Terms, bool) {
	for _, l := range limits {
		if !l.Algorithm.Leasable() {
			return Terms{}, false
		}
		t.Size = min(t.Size, l.Requests/part)
		t.Lifetime = min(t.Lifetime, l.Window/part)
	}
	t.Lifetime = t.Lifetime.Truncate(time.Microsecond)
	return t, t.Size >= MinSize && t.Lifetime >= MinLifetime
}
