package window

import (
	"math/rand/v2"
	"slices"
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

// since returns the units after cutoff.
func (p *plainLog) since(cutoff int64) int64 { return int64(len(p.live(cutoff, Limit{}))) }

// decide follows the promise word by word, and finds RetryAfter by trying.
func (p *plainLog) decide(l Limit, now, cost int64, charge bool) Verdict {
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

// giveBack is Log.Return.
func (p *plainLog) giveBack(at, units int64) (returned int64) {
	p.units = slices.DeleteFunc(p.units, func(stamp int64) bool {
		gone := stamp == at && returned < units
		if gone {
			returned++
		}
		return gone
	})
	return returned
}

// decide runs one request through a Log as a store does.
func (l *Log) request(limit Limit, now, cost int64, charge bool) Verdict {
	stamp, facts := max(now, l.Newest()), l.Facts(limit, now, cost)
	v := facts.Decide(limit, now, stamp, cost)
	if v.Admitted && charge && cost > 0 {
		l.Expire(now - limit.W)
		l.Push(stamp, cost)
	}
	return v
}

// audit holds what stands beside the ring against what stands in it.
func (l *Log) audit(t *testing.T) {
	t.Helper()
	if l.entries == 0 || l.entries <= 2 && l.Words() == 0 && !l.pairs {
		return
	}
	if units := l.total(l.entries - 1); l.held(Limit{}, 0) != units && (!l.pairs || l.units != Round(units)) {
		t.Fatalf("about %d units, the ring holds %d", l.held(Limit{}, 0), units)
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
			got := log.request(limit, now, cost, charge)
			if got != want {
				t.Fatalf("seed %d step %d: limit %+v now %d cost %d charge %v:\n got %+v\nwant %+v",
					seed, step, limit, now, cost, charge, got, want)
			}
			switch rng.IntN(10) {
			case 0:
				log.Shrink()
			case 1, 2:
				at := now - rng.Int64N(limit.W)
				if live := plain.live(now, limit); len(live) > 0 && rng.IntN(4) > 0 {
					at = live[rng.IntN(len(live))]
				}
				plain.units = plain.live(now, limit)
				log.Expire(now - limit.W)
				units := 1 + rng.Int64N(3)
				if got, want := log.Return(at, units), plain.giveBack(at, units); got != want {
					t.Fatalf("seed %d step %d: %d of %d units at %d returned, want %d", seed, step, got, units, at, want)
				}
			}
			log.audit(t)
			for cutoff := now - limit.W; cutoff <= now; cutoff += limit.W / 50 {
				if got, want := log.Since(cutoff), plain.since(cutoff); got != want {
					t.Fatalf("seed %d step %d: %d units after %d, want %d", seed, step, got, cutoff, want)
				}
			}
		}
	}
}

// TestEmptiedLog: nothing is left of a log that is empty, also by a clock that steps back.
func TestEmptiedLog(t *testing.T) {
	log := filled(10, 30)
	log.Expire(39)
	if log.Newest() != 0 || log.Since(20) != 0 || log.Facts(Limit{N: 5, W: 10}, 30, 1) != (LogFacts{}) {
		t.Errorf("%d units since 20, the newest at %d", log.Since(20), log.Newest())
	}
}
