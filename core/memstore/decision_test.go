package memstore_test

import (
	"math"
	"math/rand/v2"
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
		{"nothing", memstore.WithMaxBytes(0), []string{"WithMaxBytes(0)", "65536", "64 KiB"}},
		{"negative", memstore.WithMaxBytes(-1), []string{"WithMaxBytes(-1)", "65536"}},
		{"lowest", memstore.WithMaxBytes(math.MinInt64), []string{"65536"}},
		{"too little", memstore.WithMaxBytes(memstore.MinMaxBytes - 1), []string{"WithMaxBytes(65535)", "65536"}},
		{"too much", memstore.WithMaxBytes(512<<30 + 1), []string{"WithMaxBytes(549755813889)", "549755813888", "512 GiB"}},
		{"highest", memstore.WithMaxBytes(math.MaxInt64), []string{"512 GiB"}},
		{"no clock", memstore.WithClock(nil), []string{"WithClock(nil)", "time.Now"}},
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
		if d := limiter(t, s, core.PerMinute(1)).Allow(ctx, "k"); !d.Allowed || s.Bytes() > n {
			t.Errorf("%d bytes: %+v", n, d)
		}
	}
}

// TestGolden holds the vectors that the algorithms were described with.
func TestGolden(t *testing.T) {
	minute := func(n int64) core.Limit { return core.PerMinute(n).Using(core.SlidingCounter) }
	quarter := noon.Add(15 * time.Second)
	for _, c := range []struct {
		name              string
		prev, cur         int64
		at                time.Time
		allowed           bool
		remaining         int64
		reset, retryAfter time.Duration
	}{
		{"80 before, 30 now, 25 %: 90 of 100", 80, 30, quarter, true, 9, 45 * time.Second, 0},
		{"80 before, 41 now, 25 %: 101 of 100", 80, 41, quarter, false, 0, 45 * time.Second, 750_001 * time.Microsecond},
		{"20 s into 60 s: a third is gone", 3, 0, noon.Add(20 * time.Second), true, 97, 40 * time.Second, 0},
		{"at the window's start all of it counts", 100, 0, noon, false, 0, time.Minute, time.Microsecond},
	} {
		s, clock := newStore(memstore.DefaultMaxBytes)
		// A higher limit on the same counts fills them up; then it is lowered.
		fill, l := limiter(t, s, minute(1000)), limiter(t, s, minute(100))
		clock.Set(noon.Add(-time.Second))
		fill.AllowN(ctx, "k", c.prev)
		clock.Set(c.at)
		fill.AllowN(ctx, "k", c.cur)
		want := core.Decision{
			Allowed: c.allowed, Source: core.Counted, Limit: l.Limits()[0], Remaining: c.remaining,
			ResetAfter: c.reset, RetryAfter: c.retryAfter, At: clock.Now(),
		}
		if d := l.Peek(ctx, "k"); d != want {
			t.Errorf("%s, peek: %+v, want %+v", c.name, d, want)
		}
		if d := l.Allow(ctx, "k"); d != want {
			t.Errorf("%s: %+v, want %+v", c.name, d, want)
		}
	}
}

// TestBoundary: exactly a window old counts no more, a microsecond less does.
func TestBoundary(t *testing.T) {
	for _, w := range []time.Duration{
		core.MinWindow, time.Second, 1_234_567 * time.Microsecond, time.Hour, core.MaxWindow,
	} {
		clock := newClock()
		l := limiter(t, memstore.New(memstore.WithClock(clock.Now)), core.Per(2, w))
		l.Allow(ctx, "k")
		clock.Add(time.Microsecond)
		l.Allow(ctx, "k")
		clock.Add(w - 2*time.Microsecond)
		if d := l.Allow(ctx, "k"); d.Allowed || d.RetryAfter != time.Microsecond || d.ResetAfter != time.Microsecond {
			t.Errorf("%v, 1 us before the first leaves: %+v", w, d)
		}
		clock.Add(time.Microsecond)
		if d := l.Allow(ctx, "k"); !d.Allowed || d.Remaining != 0 || d.ResetAfter != time.Microsecond {
			t.Errorf("%v, when the first leaves: %+v", w, d)
		}
		if d := l.Allow(ctx, "k"); d.Allowed || d.RetryAfter != time.Microsecond {
			t.Errorf("%v, the second still counts: %+v", w, d)
		}
	}
}

// TestBinding: which of several limits a decision shows.
func TestBinding(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits string // as ParseLimit reads them
		before int64  // units admitted a second ago
		cost   int64
		want   string
		never  bool
	}{
		{"admitted: the least remaining", "9/1h named a, 5/1s named b, 7/1m named c", 0, 1, "b", false},
		{"then the longest ResetAfter", "5/1m named a, 5/1h named b, 5/1s named c", 0, 1, "b", false},
		{"then the first listed", "5/1m named a, 5/1m named b", 0, 1, "a", false},
		{"nothing counted: the least remaining", "6/1m named a, 5/1s named b", 0, 0, "b", false},
		{"refused: the longest RetryAfter", "3/1m named a, 3/1h named b, 3/1s named c", 3, 1, "b", false},
		{"not one that admits, though less remains", "5/1s named a, 3/1m named b", 3, 1, "b", false},
		{"Never before all others", "3/1h named a, 100/1m named b, 2000/1s named c", 3, 101, "a", true},
		{"of two Nevers the first", "3/1s named a, 2/1h named b", 0, 4, "a", true},
	} {
		var limits []core.Limit
		for text := range strings.SplitSeq(c.limits, ", ") {
			limit, err := core.ParseLimit(text)
			if err != nil {
				t.Fatal(err)
			}
			limits = append(limits, limit)
		}
		clock := newClock()
		l := limiter(t, memstore.New(memstore.WithClock(clock.Now)), limits...)
		if c.before > 0 {
			l.AllowN(ctx, "k", c.before)
			clock.Add(time.Second)
		}
		for range 2 { // a peek, then the request
			d := l.Decide(ctx, core.Request{Key: "k", Cost: c.cost, Peek: true})
			if d.Limit.Name != c.want || (d.RetryAfter == core.Never) != c.never {
				t.Errorf("%s: %+v, want %s", c.name, d, c.want)
			}
			if got := l.AllowN(ctx, "k", c.cost); got != d {
				t.Errorf("%s: %+v after a peek said %+v", c.name, got, d)
			}
			if d.Allowed {
				break
			}
		}
	}
}

// TestClockJumps: by years forward, and back. Then time stands still until the clock has
// caught up: a step back gives no quota, and delays it by no more than that.
func TestClockJumps(t *testing.T) {
	const years = 20 * 366 * 24 * time.Hour
	for _, a := range algorithms {
		s, clock := newStore(memstore.MinMaxBytes)
		l := limiter(t, s, core.PerHour(3).Using(a), core.PerDay(5).Using(a))
		take := func(what string, allowed bool, remaining int64) core.Decision {
			t.Helper()
			d := l.Allow(ctx, "k")
			if d.Err != nil || d.Allowed != allowed || d.Remaining != remaining {
				t.Errorf("%v, %s: %+v, want allowed: %v, and %d remain", a, what, d, allowed, remaining)
			}
			return d
		}
		take("first", true, 2)
		take("second", true, 1)
		clock.Add(years)
		latest := take("years later", true, 2).At
		take("years later", true, 1)
		clock.Add(-years)
		if back := take("back again", true, 0); !back.At.Equal(latest) {
			t.Errorf("%v: counted at %v, want %v", a, back.At, latest)
		}
		d := take("none is left", false, 0)
		clock.Set(latest)
		if caught := take("when the clock has caught up", false, 0); caught != d {
			t.Errorf("%v, when the clock has caught up: %+v, want %+v", a, caught, d)
		}
		clock.Add(d.RetryAfter)
		if d := l.Allow(ctx, "k"); !d.Allowed {
			t.Errorf("%v, when told to come: %+v, want allowed", a, d)
		}
	}
}

// TestEndsOfTime: clocks that nobody has, but tests do.
func TestEndsOfTime(t *testing.T) {
	for _, at := range []time.Time{time.Unix(0, 0), time.Date(2254, 1, 1, 0, 0, 0, 0, time.UTC)} {
		for _, a := range algorithms {
			clock := newClock()
			clock.Set(at)
			l := limiter(t, memstore.New(memstore.WithClock(clock.Now)), core.PerHour(2).Using(a))
			for i := range 4 {
				if d := l.Allow(ctx, "k"); d.Allowed != (i < 2) || d.Err != nil || d.ResetAfter <= 0 || d.Remaining < 0 {
					t.Errorf("%v, %v, request %d: %+v", at, a, i, d)
				}
			}
			clock.Add(3 * time.Hour)
			if d := l.Allow(ctx, "k"); !d.Allowed {
				t.Errorf("%v, %v, three hours later: %+v", at, a, d)
			}
		}
	}
}

// history is what was admitted, by the definition and as slow as that is.
type history struct {
	at   []int64
	cost []int64
}

// room says whether one limit admits.
func (h *history) room(l core.Limit, now, cost int64) bool {
	w := l.Window.Microseconds()
	var log, prev, cur int64
	for i, t := range h.at {
		if t > now-w {
			log += h.cost[i]
		}
		switch now/w - t/w {
		case 0:
			cur += h.cost[i]
		case 1:
			prev += h.cost[i]
		}
	}
	switch l.Algorithm {
	case core.SlidingLog:
		return cost == 0 || log+cost <= l.Requests
	case core.SlidingCounter:
		weight := float64(w-now%w) / float64(w)
		return cost == 0 || int64(math.Floor(float64(prev)*weight))+cur+cost <= l.Requests
	}
	panic("no definition of algorithm " + l.Algorithm.String())
}

// TestRetryAfterIsExact runs random histories under several limits, raised and
// lowered on the way, against the definition; and every refusal is tried at
// the moment that was told, and a microsecond and a millisecond before.
func TestRetryAfterIsExact(t *testing.T) {
	refusals, raised := 0, 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 4))
		s, clock := newStore(memstore.DefaultMaxBytes)
		limits := make([]core.Limit, 1+rng.IntN(5))
		for i := range limits {
			w := core.MinWindow << rng.IntN(36)
			w += time.Duration(rng.Int64N(int64(w))).Truncate(time.Microsecond)
			limit := core.Per(1+rng.Int64N(30), min(w, core.MaxWindow))
			limits[i] = limit.Using(algorithms[rng.IntN(len(algorithms))]).Named(key("l", i))
		}
		l := limiter(t, s, limits...)
		var h history
		fits := func(cost int64) bool {
			for _, limit := range limits {
				if !h.room(limit, clock.Now().UnixMicro(), cost) {
					return false
				}
			}
			return true
		}
		for step := range 150 {
			switch rng.IntN(10) {
			case 0:
				limits[rng.IntN(len(limits))].Requests = 1 + rng.Int64N(30)
				l = limiter(t, s, limits...)
				raised++
			case 1, 2, 3:
				clock.Add(time.Duration(rng.Int64N(int64(limits[rng.IntN(len(limits))].Window))).Truncate(time.Microsecond))
			}
			cost := rng.Int64N(8)
			var never bool
			for _, limit := range limits {
				never = never || cost > limit.Requests
			}
			told := l.Decide(ctx, core.Request{Key: "k", Cost: cost, Peek: true})
			if d := l.AllowN(ctx, "k", cost); d != told {
				t.Fatalf("seed %d, step %d: %+v after a peek said %+v", seed, step, d, told)
			}
			if want := fits(cost); told.Allowed != want || told.Err != nil {
				t.Fatalf("seed %d, step %d, %v, cost %d: %+v, want %v", seed, step, limits, cost, told, want)
			}
			if told.Allowed != (told.RetryAfter == 0) || never != (told.RetryAfter == core.Never) {
				t.Fatalf("seed %d, step %d: %+v", seed, step, told)
			}
			if !told.Allowed && !never {
				refusals++
				at := clock.Now().Add(told.RetryAfter)
				if told.RetryAfter > time.Millisecond {
					clock.Set(at.Add(-time.Millisecond))
					if d := l.AllowN(ctx, "k", cost); d.Allowed || d.RetryAfter != time.Millisecond {
						t.Fatalf("seed %d, step %d, %v: 1 ms early: %+v", seed, step, limits, d)
					}
				}
				clock.Set(at.Add(-time.Microsecond))
				if d := l.AllowN(ctx, "k", cost); d.Allowed || d.RetryAfter != time.Microsecond {
					t.Fatalf("seed %d, step %d, %v: 1 us early: %+v", seed, step, limits, d)
				}
				clock.Set(at)
				if d := l.AllowN(ctx, "k", cost); !d.Allowed || d.RetryAfter != 0 {
					t.Fatalf("seed %d, step %d, %v: when told to come: %+v", seed, step, limits, d)
				}
			}
			if !never && cost > 0 { // admitted, at once or when told
				h.at = append(h.at, clock.Now().UnixMicro())
				h.cost = append(h.cost, cost)
			}
		}
	}
	if refusals < 1000 || raised < 100 {
		t.Errorf("only %d refusals were tried, %d limits changed", refusals, raised)
	}
}
