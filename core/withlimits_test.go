package core_test

import (
	"testing"

	"github.com/sashlimit/sash/core"
)

// TestWithLimits: the limits that a limiter of WithLimits has in common with the first are
// the same counts, whatever their numbers; others have counts of their own.
func TestWithLimits(t *testing.T) {
	l := limiter(t, core.Config{Name: "api", Limits: []core.Limit{core.PerMinute(3), core.PerHour(9).Named("hourly")}})
	l.AllowN(ctx, "k", 3)
	for _, c := range []struct {
		limits    []core.Limit
		allowed   bool
		remaining int64
		limit     string
		used      []int64
	}{
		{[]core.Limit{core.PerMinute(5), core.PerHour(9).Named("hourly")}, true, 1, "1m0s", []int64{4, 4}},
		{[]core.Limit{core.PerMinute(2), core.PerHour(9).Named("hourly")}, false, 0, "1m0s", []int64{4, 4}},
		{[]core.Limit{core.PerHour(5).Named("hourly"), core.PerDay(50)}, true, 0, "hourly", []int64{5, 1}},
		{[]core.Limit{core.PerHour(9), core.PerMinute(6)}, true, 1, "1m0s", []int64{1, 5}},
	} {
		other, err := l.WithLimits(c.limits...)
		if err != nil {
			t.Fatal(err)
		}
		d := other.Allow(ctx, "k")
		if d.Allowed != c.allowed || d.Remaining != c.remaining || d.Limit.Name != c.limit || d.Err != nil {
			t.Errorf("%v: got %+v, want %v with %d remaining of %s", c.limits, d, c.allowed, c.remaining, c.limit)
		}
		for i, u := range used(t, other, "k") {
			if u.Used != c.used[i] || u.Remaining != max(0, c.limits[i].Requests-u.Used) {
				t.Errorf("%v: got %+v, want %d used", c.limits, u, c.used[i])
			}
		}
	}
	if limits := l.Limits(); limits[0].Requests != 3 || limits[1].Requests != 9 {
		t.Errorf("the first limiter has %v, want its own limits", limits)
	}
	var zero core.Limiter
	if _, err := zero.WithLimits(core.PerMinute(1)); err == nil {
		t.Error("the zero Limiter has a copy, want an error")
	}
}
