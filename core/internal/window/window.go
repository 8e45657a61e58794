// Package window is the arithmetic of the sliding windows, free of clocks,
// locks and stores. It decides in memory, turns what Redis reports into
// decisions, and is the oracle that every store is tested against.
//
// Times are microseconds since the Unix epoch, lengths are microseconds, and
// costs are units. The range of limits (a window of at most 366 days, at most
// 2^40 units) and of times (before the year 2255, where microseconds reach
// 2^53) keeps every intermediate value exact in an int64 and in a double.
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

// Limit is N units in any window of W microseconds, by the Algorithm. The types of the algorithms do not look at that.
type Limit struct {
	N, W      int64
	Algorithm core.Algorithm
	Boundless bool // whatever is asked for is admitted; see [Verdict.Units]
}

// MaxAhead is the most that an Allowance may be, and AheadPart says which part of the
// shortest window.
const (
	MaxAhead  = 75_000_000
	AheadPart = 8
)

// Allowance returns how far ahead of a store's clock a rule may have counted, given the
// shortest window of the rule. Leases are counted up to a tenth of that window ahead, or
// a minute; the rest is for a clock that steps back a little while a lease lasts. What
// is counted further ahead was counted by a clock that was wrong, and would be in the
// way for as long: all units count from now on then.
func Allowance(shortest int64) int64 { return min(MaxAhead, shortest/AheadPart) }

// fits says whether cost may be added to what is counted. The first comparison
// keeps a cost that no limit allows out of the sum, which might overflow.
func (l Limit) fits(counted, cost int64) bool {
	return cost == 0 || l.Boundless || cost <= l.N && counted+cost <= l.N
}

// left returns how many units are left where some are counted.
func (l Limit) left(counted int64) int64 {
	if l.Boundless {
		return boundless - counted
	}
	return max(0, l.N-counted)
}

// Verdict is the answer of one limit to one request.
type Verdict struct {
	Admitted   bool
	Remaining  int64 // units left after the request, at least 0
	ResetAfter int64 // microseconds, 0 when nothing is counted
	RetryAfter int64 // microseconds, 0 when admitted, Never
}

// Binds says whether a limit with verdict v, listed after one with verdict w,
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

// boundless is what a Boundless limit leaves where nothing is counted.
const boundless = 1 << 62

// Units returns how many units count after a request, by the verdict on it under a Boundless
// limit.
func (v Verdict) Units() int64 { return boundless - v.Remaining }

// Charged returns the verdict on units that are counted whatever the limit says, given
// the verdict on them under a Boundless limit.
func (l Limit) Charged(v Verdict) Verdict {
	v.Remaining = max(0, l.N-v.Units())
	return v
}
