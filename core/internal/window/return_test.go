package window

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// naiveEntry is an entry of naiveLog.
type naiveEntry struct{ stamp, cost int64 }

// naiveLog is a log without a ring, which a Log is compared with.
type naiveLog []naiveEntry

// back is Log.Return.
func (p *naiveLog) back(at, units int64) (returned int64) {
	newer := 0
	for _, e := range *p {
		if e.stamp > at {
			newer++
		}
	}
	if newer > ReturnDepth {
		return 0
	}
	for i := range *p {
		if e := &(*p)[i]; e.stamp == at {
			n := min(e.cost, units-returned)
			e.cost, returned = e.cost-n, returned+n
		}
	}
	*p = slices.DeleteFunc(*p, func(e naiveEntry) bool { return e.cost == 0 })
	return returned
}

// since returns the units after cutoff.
func (p naiveLog) since(cutoff int64) (units int64) {
	for _, e := range p {
		if e.stamp > cutoff {
			units += e.cost
		}
	}
	return units
}

// checkLogReturn holds Log.Return against a log without a ring: after each step, every window has
// the same units. A step is three bytes: what is done, when, and of how many units up to most.
func checkLogReturn(t *testing.T, data []byte, most int64) {
	const w = 40
	var log Log
	var plain naiveLog
	now := int64(1000)
	for ; len(data) >= 3; data = data[3:] {
		now += int64(data[1] % 5)
		switch units := 1 + int64(data[2])%most; data[0] % 4 {
		case 0, 1:
			if data[0]%4 == 0 {
				units = 1
			}
			log.Expire(now - w)
			log.Push(now, units)
			plain = append(plain, naiveEntry{now, units})
		case 2:
			at := now - int64(data[1]/5)%w
			if got, want := log.Return(at, units), plain.back(at, units); got != want {
				t.Fatalf("got %d of %d units at %d returned, want %d", got, units, at, want)
			}
		case 3:
			log.Shrink()
		}
		plain = slices.DeleteFunc(plain, func(e naiveEntry) bool { return e.stamp <= now-w })
		log.audit(t)
		for cutoff := now - w; cutoff <= now; cutoff++ {
			if got, want := log.Since(cutoff), plain.since(cutoff); got != want {
				t.Fatalf("got %d units after %d, want %d", got, cutoff, want)
			}
		}
		if n := len(plain); n > 0 && log.Newest() != plain[n-1].stamp {
			t.Fatalf("got the newest %d, want %d", log.Newest(), plain[n-1].stamp)
		}
	}
}

// TestLogReturn gives back of random logs: a cost of 1 alone keeps a ring of single stamps.
func TestLogReturn(t *testing.T) {
	for seed := range uint64(300) {
		data := make([]byte, 1200)
		for i, rng := 0, rand.New(rand.NewPCG(seed, 1)); i < len(data); i++ {
			data[i] = byte(rng.Uint32())
		}
		checkLogReturn(t, data, 1+int64(seed%3))
	}
}

func FuzzLogReturn(f *testing.F) {
	f.Add([]byte("\x00\x01\x01\x00\x01\x02\x01\x01\x01\x02\x00\x09"))
	f.Add([]byte("many steps of a log, some of them at the same time; and one that is coarser"))
	f.Fuzz(func(t *testing.T, data []byte) { checkLogReturn(t, data, 8) })
}

// TestLogReturnDepth: the units of an entry stay when more than ReturnDepth are newer.
func TestLogReturnDepth(t *testing.T) {
	var log Log
	for i := range int64(ReturnDepth + 2) {
		log.Push(i+1, 1)
	}
	if n := log.Return(1, 1); n != 0 {
		t.Errorf("%d returned of an entry with %d newer ones", n, ReturnDepth+1)
	}
	if n := log.Return(2, 1); n != 1 {
		t.Errorf("%d returned of an entry with %d newer ones", n, ReturnDepth)
	}
	if n := log.Return(log.Newest(), 1); n != 1 {
		t.Errorf("%d returned of the newest entry", n)
	}
	for range ReturnDepth + 2 {
		log.Push(ReturnDepth+5, 1)
	}
	if n := log.Return(ReturnDepth+5, 2*ReturnDepth); n != ReturnDepth+1 {
		t.Errorf("%d returned of entries of one stamp, want one with %d newer ones at last", n, ReturnDepth)
	}
}

// TestLogReturnNewest: of entries of one stamp the newest become empty, so that few move.
func TestLogReturnNewest(t *testing.T) {
	var log Log
	log.Push(7, 3)
	log.Push(7, 2)
	if n := log.Return(7, 2); n != 2 || log.entries != 1 {
		t.Errorf("%d returned, %d entries left", n, log.entries)
	}
}

// TestCounterReturn: units go back to the fixed window that they were counted in.
func TestCounterReturn(t *testing.T) {
	const w = 10
	for _, c := range []struct {
		name           string
		counter        Counter
		at, now, units int64
		want           Counter
		returned       int64
	}{
		{"the current window", Counter{5, 3, 4}, 52, 53, 2, Counter{5, 3, 2}, 2},
		{"more than there is", Counter{5, 3, 4}, 52, 53, 9, Counter{5, 3, 0}, 4},
		{"the window before", Counter{5, 3, 4}, 49, 53, 2, Counter{5, 1, 4}, 2},
		{"the window before, by now", Counter{5, 3, 4}, 52, 61, 3, Counter{5, 3, 1}, 3},
		{"gone", Counter{5, 3, 4}, 39, 53, 2, Counter{5, 3, 4}, 2},
		{"gone by now", Counter{5, 3, 4}, 52, 75, 2, Counter{5, 3, 4}, 2},
		{"gone by a clock that was ahead", Counter{5, 3, 4}, 39, 45, 2, Counter{5, 3, 4}, 2},
		{"ahead", Counter{5, 3, 4}, 60, 53, 2, Counter{5, 3, 4}, 0},
	} {
		got, returned := c.counter.Return(w, c.at, c.now, c.units)
		if got != c.want || returned != c.returned {
			t.Errorf("%s: %+v and %d, want %+v and %d", c.name, got, returned, c.want, c.returned)
		}
	}
}
