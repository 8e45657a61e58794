package window

import (
	"math"
	"testing"
	"time"
)

func TestBinds(t *testing.T) {
	admitted := func(remaining, reset int64) Verdict {
		return Verdict{Admitted: true, Remaining: remaining, ResetAfter: reset}
	}
	refused := func(retry int64) Verdict { return Verdict{RetryAfter: retry} }
	for _, test := range []struct {
		name   string
		v, w   Verdict
		expect bool
	}{
		{"a refusal before an admission", refused(1), admitted(0, 9), true},
		{"an admission after a refusal", admitted(0, 9), refused(1), false},
		{"the longer wait", refused(2), refused(1), true},
		{"the shorter wait", refused(1), refused(2), false},
		{"Never is the longest", refused(Never), refused(1 << 50), true},
		{"equal waits", refused(1), refused(1), false},
		{"the least remaining", admitted(1, 1), admitted(2, 9), true},
		{"more remaining", admitted(2, 9), admitted(1, 1), false},
		{"the longer reset", admitted(1, 2), admitted(1, 1), true},
		{"equal", admitted(1, 1), admitted(1, 1), false},
	} {
		if got := test.v.Binds(test.w); got != test.expect {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

func TestDuration(t *testing.T) {
	for micros, want := range map[int64]time.Duration{0: 0, 7: 7 * time.Microsecond, Never: math.MaxInt64} {
		if got := Duration(micros); got != want {
			t.Errorf("%d microseconds are %v, want %v", micros, got, want)
		}
	}
}

// TestAllowance: it is an eighth of the shortest window, and 75 s at most.
func TestAllowance(t *testing.T) {
	const second = 1_000_000
	for shortest, want := range map[int64]int64{
		second: second / 8, 600 * second: 75 * second, 3600 * second: 75 * second,
	} {
		if got := AllowedLead(shortest); got != want {
			t.Errorf("%d of a window of %d microseconds, want %d", got, shortest, want)
		}
	}
}
