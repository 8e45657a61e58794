package window

import (
	"math/rand/v2"
	"testing"
)

// plainLog is the definition of the log, as slow as it is plain: every admitted
// unit is remembered by itself until a later one is admitted without it.
type plainLog struct{ units []int64 }

func (p *plainLog) live(now int64, l Limit) (live []int64) {
	for _, s := range p.units {
		if s > now-l.W {
			live = append(live, s)
		}
	}
	return live
}

// decide follows the promise word by word, and finds RetryAfter by trying.
func (p *plainLog) decide(l Limit, now, cost int64, charge bool) Verdict {
	if n := len(p.units); n > 0 && p.units[n-1] > now+min(MaxAhead, l.W/AheadPart) {
		// Counted by a clock that was ahead: it counts from now on.
		restamped := plainLog{units: p.live(now, l)}
		for i := range restamped.units {
			restamped.units[i] = min(restamped.units[i], now)
		}
		if !charge || cost == 0 {
			return restamped.decide(l, now, cost, charge)
		}
		*p = restamped
	}
	live := p.live(now, l)
	stamp := now
	if n := len(p.units); n > 0 {
		stamp = max(stamp, p.units[n-1])
	}
	v := Verdict{Admitted: cost == 0 || int64(len(live))+cost <= l.N}
	if v.Admitted {
		for range cost {
			live = append(live, stamp)
		}
		if charge && cost > 0 {
			p.units = live
		}
	} else if cost > l.N {
		v.RetryAfter = Never
	} else {
		// Only the moments at which a unit leaves can change the answer.
		for _, s := range live {
			if t := s + l.W; int64(len(p.live(t, l)))+cost <= l.N {
				v.RetryAfter = t - now
				break
			}
		}
	}
	v.Remaining = max(0, l.N-int64(len(live)))
	if len(live) > 0 {
		v.ResetAfter = live[0] + l.W - now
	}
	return v
}

// decide runs one request through a Log as a store does.
func (l *Log) decide(limit Limit, now, cost int64, charge bool) Verdict {
	stamp, facts := max(now, l.Newest()), l.Facts(limit, now, cost)
	ahead := stamp-now > Allowance(limit.W)
	if ahead {
		stamp, facts = now, facts.Rewound(now)
	}
	v := facts.Decide(limit, now, stamp, cost)
	if charge && cost > 0 && ahead {
		l.Rewind(now)
	}
	if v.Admitted && charge && cost > 0 {
		l.Expire(now - limit.W)
		l.Push(stamp, cost)
	}
	return v
}

// audit holds what stands beside the ring against what stands in it.
func (l *Log) audit(t *testing.T) {
	t.Helper()
	if l.entries == 0 || l.entries == 1 && l.Words() == 0 && !l.pairs {
		return
	}
	if units := l.total(l.entries - 1); l.held() != units && (!l.pairs || l.units != Round(units)) {
		t.Fatalf("about %d units, the ring holds %d", l.held(), units)
	}
	if l.entries > l.room() {
		t.Fatalf("%d entries in a ring of %d words", l.entries, l.Words())
	}
	words := uint32(1)
	if l.pairs {
		words = 2
	}
	if first, last := l.ring()[words*l.at(0)], l.ring()[words*l.at(l.entries-1)]; first != l.first || last != l.last {
		t.Fatalf("from %d to %d in the ring, from %d to %d beside it", first, last, l.first, l.last)
	}
}

// TestLogHistories runs random histories, with costs, with clocks that step
// back, and with limits that are raised and lowered on the way.
func TestLogHistories(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		limit := Limit{N: 1 + rng.Int64N(12), W: 1000 + rng.Int64N(5000)}
		maxCost := int64(1)
		if rng.IntN(2) == 0 {
			maxCost = limit.N + 2
		}
		var log Log
		var plain plainLog
		now := int64(1_790_000_000_000_000)
		for step := range 300 {
			switch rng.IntN(20) {
			case 0:
				now -= rng.Int64N(2 * limit.W)
			case 1:
				now += rng.Int64N(3 * limit.W)
			case 3:
				now -= limit.W/AheadPart + rng.Int64N(3) - 1 // about as far as is let pass
			case 2:
				limit.N = 1 + rng.Int64N(12)
			default:
				now += rng.Int64N(limit.W / 4)
			}
			cost := int64(1)
			if maxCost > 1 {
				cost = rng.Int64N(maxCost + 1)
			}
			charge := rng.IntN(5) > 0
			want := plain.decide(limit, now, cost, charge)
			got := log.decide(limit, now, cost, charge)
			if got != want {
				t.Fatalf("seed %d step %d: limit %+v now %d cost %d charge %v:\n got %+v\nwant %+v",
					seed, step, limit, now, cost, charge, got, want)
			}
			if rng.IntN(10) == 0 {
				log.Shrink()
			}
			log.audit(t)
		}
	}
}

// TestLogNeverExceeds checks the promise itself: whatever the requests, no
// window that ends at an admission holds more than N units.
func TestLogNeverExceeds(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	limit := Limit{N: 50, W: 10_000}
	var log Log
	var stamps []int64
	now := int64(0)
	for range 20_000 {
		now += rng.Int64N(300) - 20 // mostly forward
		cost := 1 + rng.Int64N(3)
		stamp := max(now, log.Newest())
		if log.decide(limit, now, cost, true).Admitted {
			for range cost {
				stamps = append(stamps, stamp)
			}
		}
	}
	for i, s := range stamps {
		if j := i - int(limit.N); j >= 0 && stamps[j] > s-limit.W {
			t.Fatalf("%d units in (%d, %d]", limit.N+1, s-limit.W, s)
		}
	}
}

// TestLogRewind: what was counted by a clock that was ahead counts for one window by the
// clock that is right, all of it, however far ahead it was.
func TestLogRewind(t *testing.T) {
	const day = 24 * 3600 * 1_000_000
	limit := Limit{N: 5, W: 60_000_000}
	for _, costs := range [][]int64{{1}, {5}, {1, 1}, {1, 1, 1, 1, 1}, {2, 3}, {1, 4}, {3, 1, 1}} {
		for _, ahead := range []int64{6_000_000, 6_000_001, 60_000_000, day, 366 * day} {
			var log Log
			var units int64
			now := int64(1_790_000_000_000_000)
			for _, cost := range costs {
				units += cost
				if !log.decide(limit, now+ahead, cost, true).Admitted {
					t.Fatal("not admitted")
				}
			}
			frees := limit.W
			if ahead <= Allowance(limit.W) {
				frees += ahead
			}
			want := Verdict{RetryAfter: Never, Remaining: limit.N - units, ResetAfter: frees}
			if got := log.decide(limit, now, limit.N+1, true); got != want {
				t.Errorf("%v, %d ahead: %+v, want %+v", costs, ahead, got, want)
			}
			want.RetryAfter = frees
			if got := log.decide(limit, now, limit.N, true); got != want {
				t.Errorf("%v, %d ahead: %+v, want %+v", costs, ahead, got, want)
			}
			log.audit(t)
			if log.decide(limit, now+frees-1, limit.N, true).Admitted {
				t.Errorf("%v, %d ahead: admitted too early", costs, ahead)
			}
			if !log.decide(limit, now+frees, limit.N, true).Admitted {
				t.Errorf("%v, %d ahead: refused when told to come", costs, ahead)
			}
		}
	}
}

// TestLogRetryAfterIsExact waits exactly RetryAfter, and a microsecond less.
func TestLogRetryAfterIsExact(t *testing.T) {
	limit := Limit{N: 3, W: 1_000_000}
	fill := func() *Log {
		var log Log
		for _, at := range []int64{0, 100, 250_000} {
			log.decide(limit, at, 1, true)
		}
		return &log
	}
	for cost, want := range map[int64]int64{1: 700_000, 2: 700_100, 3: 950_000, 4: Never} {
		v := fill().decide(limit, 300_000, cost, true)
		if v.Admitted || v.RetryAfter != want {
			t.Errorf("cost %d: %+v, want refused for %d", cost, v, want)
		}
		if want == Never {
			continue
		}
		if fill().decide(limit, 300_000+want-1, cost, true).Admitted {
			t.Errorf("cost %d: admitted a microsecond early", cost)
		}
		if !fill().decide(limit, 300_000+want, cost, true).Admitted {
			t.Errorf("cost %d: refused after RetryAfter", cost)
		}
	}
}

func TestLogLargest(t *testing.T) {
	year := int64(366 * 24 * 3600 * 1_000_000)
	limit := Limit{N: 1_000_000, W: year}
	var log Log
	now := int64(1) << 52
	if v := log.decide(limit, now, limit.N-1, true); v.Remaining != 1 || v.ResetAfter != year {
		t.Errorf("nearly all at once: %+v", v)
	}
	if v := log.decide(limit, now+5, 1, true); v.Remaining != 0 || v.ResetAfter != year-5 {
		t.Errorf("the last: %+v", v)
	}
	if v := log.decide(limit, now+6, limit.N, true); v.Admitted || v.RetryAfter != year-1 {
		t.Errorf("all again: %+v", v)
	}
}

func TestLogMemory(t *testing.T) {
	var log Log
	for i := range int64(10_000) {
		log.Push(i, 1)
	}
	if words := log.Words(); words > 13_000 {
		t.Errorf("10,000 entries take %d words", words)
	}
	log.Expire(9_990)
	log.Shrink()
	if words := log.Words(); words > 20 || log.entries != 9 || log.Newest() != 9_999 {
		t.Errorf("after shrinking: %d words, %d entries, newest %d", words, log.entries, log.Newest())
	}
}

func FuzzLog(f *testing.F) {
	f.Add([]byte{1, 1, 1, 1, 1, 1})
	f.Add([]byte{0, 200, 1, 3, 255, 9, 128, 2, 64, 5})
	f.Add([]byte{2, 0, 2, 0, 2, 0, 255, 255, 1, 1})
	f.Fuzz(func(t *testing.T, history []byte) {
		limit := Limit{N: 5, W: 1000}
		var log Log
		var plain plainLog
		now := int64(1 << 50)
		for i := 0; i+1 < len(history) && i < 200; i += 2 {
			now += (int64(history[i]) - 40) * 8
			cost := int64(history[i+1] % 8)
			want := plain.decide(limit, now, cost, true)
			if got := log.decide(limit, now, cost, true); got != want {
				t.Fatalf("request %d (now %d, cost %d): got %+v, want %+v", i/2, now, cost, got, want)
			}
		}
	})
}
