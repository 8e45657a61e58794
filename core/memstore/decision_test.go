package memstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

func TestOptionErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		option memstore.Option
		says   []string
	}{
		{"negative", memstore.WithMaxBytes(-1), []string{"WithMaxBytes(-1)", "65536"}},
		{"too little", memstore.WithMaxBytes(memstore.MinMaxBytes - 1), []string{"WithMaxBytes(65535)", "65536", "64 KiB"}},
		{"too much", memstore.WithMaxBytes(512<<30 + 1), []string{"WithMaxBytes(549755813889)", "549755813888", "512 GiB"}},
		{"no clock", memstore.WithClock(nil), []string{"WithClock(nil)", "time.Now"}},
		{"nil", nil, []string{"option 1 of memstore is nil"}},
	} {
		s := memstore.New(c.option, memstore.WithMaxBytes(1<<20))
		_, err := core.New(core.Config{Store: s, Limits: []core.Limit{core.PerMinute(1)}})
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		for _, say := range c.says {
			if !strings.Contains(err.Error(), say) {
				t.Errorf("%s: the error %q does not say %q", c.name, err, say)
			}
		}
	}
	for _, n := range []int64{memstore.MinMaxBytes, 512 << 30} {
		s := memstore.New(memstore.WithMaxBytes(n))
		if d := limiter(t, s, core.PerMinute(1)).Allow(ctx, "k"); !d.Allowed || s.Stats().Bytes > n {
			t.Errorf("%d bytes: %+v", n, d)
		}
	}
}

// TestClockJumps: by years forward, and back. Then time stands still until the clock has
// caught up: a step back gives no quota, and delays it by no more than that.
func TestClockJumps(t *testing.T) {
	const years = 20 * 366 * 24 * time.Hour
	for _, a := range algorithms {
		s, clock := newStore(memstore.MinMaxBytes)
		l := limiter(t, s, core.PerHour(2).Using(a))
		take := func(what string, allowed bool, remaining int64) core.Decision {
			t.Helper()
			d := l.Allow(ctx, "k")
			if d.Err != nil || d.Allowed != allowed || d.Remaining != remaining {
				t.Errorf("%v, %s: got %+v, want allowed: %v, and %d remaining", a, what, d, allowed, remaining)
			}
			return d
		}
		clock.Set(time.Unix(0, 0))
		take("in 1970", true, 1)
		clock.Add(2 * years)
		latest := take("years later", true, 1).At
		clock.Add(-years)
		if back := take("back again", true, 0); !back.At.Equal(latest) {
			t.Errorf("%v: got counted at %v, want %v", a, back.At, latest)
		}
		d := take("none is left", false, 0)
		clock.Set(latest.Add(d.RetryAfter))
		if d := l.Allow(ctx, "k"); !d.Allowed {
			t.Errorf("%v, when told to come: got %+v, want allowed", a, d)
		}
	}
}
