// Package window is the arithmetic of the sliding windows, without clocks,
// locks and stores. It decides in memory, and turns the facts in a reply of
// Redis into decisions.
//
// Times are microseconds since the Unix epoch, lengths are microseconds, and
// costs are units. The range of limits (a window of at most 366 days, at most
// 2^40 units) and of times (before the year 2255, where microseconds reach
// 2^53) keeps every intermediate value exact in an int64 and in a double, but
// for products of counters and buckets, which have functions of their own.
package window

import (
	"math"
	"time"

	"github.com/sashlimit/sash/core"
)

// Never is the RetryAfter of a cost that exceeds the limit.
const Never = math.MaxInt64

// Duration turns microseconds into a duration. Never is the longest there is.
func Duration(micros int64) time.Duration {
	if micros == Never {
		return math.MaxInt64
	}
	return time.Duration(micros) * time.Microsecond
}

// Limit is N units in any window of W microseconds, by the Algorithm. The types Log, Counter and Bucket ignore
// Algorithm.
type Limit struct {
	N, W      int64
	Algorithm core.Algorithm
	Unlimited bool // every request is admitted; see [Verdict.Units]
}

// An AllowedLead is at most MaxLead, and at most the LeadPart-th part of the shortest window.
const (
	MaxLead  = 75_000_000
	LeadPart = 8
)

// AllowedLead returns the longest time by which stamps may be ahead of a store's clock, given the shortest window of
// the rule. Leases are stamped ahead by up to a tenth of that window, or a minute; the rest is for a clock that steps
// back a little while a lease lasts. A stamp with a greater lead comes from a clock that was wrong, and would block
// requests for as long: then all units get the stamp now.
func AllowedLead(shortest int64) int64 { return min(MaxLead, shortest/LeadPart) }

// fits reports whether cost may be added to the counted units. The first comparison
// keeps a cost above the limit out of the sum, which might overflow.
func (l Limit) fits(counted, cost int64) bool {
	return cost == 0 || l.Unlimited || cost <= l.N && counted+cost <= l.N
}

// left returns the number of units that remain.
func (l Limit) left(counted int64) int64 {
	if l.Unlimited {
		return unlimited - counted
	}
	return max(0, l.N-counted)
}

// Verdict is the answer of one limit to one request.
type Verdict struct {
	Admitted   bool
	Remaining  int64 // units left after the request, at least 0
	ResetAfter int64 // microseconds, 0 when nothing is counted
	RetryAfter int64 // microseconds, 0 when admitted, or Never
}

// Binds reports whether a limit with verdict v, listed after one with verdict w,
// is the binding one of the two: a refusal before an admission, of refusals
// the longest RetryAfter, of admissions the least Remaining and then the
// longest ResetAfter. In a tie the first listed stays.
func (v Verdict) Binds(w Verdict) bool {
	switch {
	case v.Admitted != w.Admitted:
		return w.Admitted
	case !v.Admitted:
		return v.RetryAfter > w.RetryAfter
	case v.Remaining != w.Remaining:
		return v.Remaining < w.Remaining
	default:
		return v.ResetAfter > w.ResetAfter
	}
}

// unlimited is the Remaining of an Unlimited limit of which nothing is used.
const unlimited = 1 << 62

// Units returns the number of units that count after a request, given the verdict of an Unlimited limit.
func (v Verdict) Units() int64 { return unlimited - v.Remaining }

// Charged returns the verdict on a charge, which is counted whatever the limit says, given
// the verdict of an Unlimited limit.
func (l Limit) Charged(v Verdict) Verdict {
	v.Remaining = max(0, l.N-v.Units())
	return v
}
