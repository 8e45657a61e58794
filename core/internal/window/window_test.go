package window

import (
	"math"
	"testing"
	"time"
)

// TestBinds: each verdict of the list binds before those after it, and before none that is equal.
func TestBinds(t *testing.T) {
	ordered := []Verdict{
		{RetryAfter: Never}, {RetryAfter: 1 << 50}, {RetryAfter: 2, Remaining: 3}, {RetryAfter: 1},
		{Admitted: true, ResetAfter: 9}, {Admitted: true, Remaining: 1, ResetAfter: 2},
		{Admitted: true, Remaining: 1, ResetAfter: 1}, {Admitted: true, Remaining: 2, ResetAfter: 9},
	}
	for i, v := range ordered {
		for j, w := range ordered {
			if got := v.Binds(w); got != (i < j) {
				t.Errorf("%+v before %+v: %v", v, w, got)
			}
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
