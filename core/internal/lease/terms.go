package lease

import (
	"time"

	"github.com/sashlimit/sash/core"
)

const (
	MinLifetime = time.Millisecond
	MaxLifetime = time.Minute

	// MinSize is the smallest size of a lease: a lease of one unit would save no request.
	MinSize = 2

	// divisor limits a lease to this fraction of a limit, and its lifetime to this fraction of the window. The result
	// is below the [window.AllowedLead]: units further ahead of the server's clock would count for less than a window.
	divisor = 10
)

// Terms are the largest size of a lease in units, and its lifetime.
type Terms struct {
	Size     int64
	Lifetime time.Duration
}

// For returns the terms for a rule with these limits, and reports whether the rule can be leased: a lease must save a
// request, and a counter cannot count units ahead of time.
func (t Terms) For(limits []core.Limit) (Terms, bool) {
	for _, l := range limits {
		if !l.Algorithm.CanLease() {
			return Terms{}, false
		}
		t.Size = min(t.Size, l.Requests/divisor)
		t.Lifetime = min(t.Lifetime, l.Window/divisor)
	}
	t.Lifetime = t.Lifetime.Truncate(time.Microsecond)
	return t, t.Size >= MinSize && t.Lifetime >= MinLifetime
}
