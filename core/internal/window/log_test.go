package window

import (
	"testing"
)

// audit holds what stands beside the ring against what stands in it.
func (l *Log) audit(t *testing.T) {
	t.Helper()
	if l.entries == 0 || l.entries <= 2 && l.Words() == 0 && !l.pairs {
		return
	}
	if units := l.total(l.entries - 1); l.unitsAt(Limit{}, 0) != units && (!l.pairs || l.units != Round(units)) {
		t.Fatalf("about %d units, the ring holds %d", l.unitsAt(Limit{}, 0), units)
	}
	if l.entries > l.capacity() {
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

// TestEmptiedLog: nothing is left of a log that is empty, also by a clock that steps back.
func TestEmptiedLog(t *testing.T) {
	log := filled(10, 30)
	log.Expire(39)
	l := Limit{N: 5, W: 10}
	want := Verdict{Admitted: true, Remaining: 4, ResetAfter: 10}
	if v := log.decide(l, 30, 30, 1); log.minStamp(l) != 0 || log.Since(20) != 0 || v != want {
		t.Errorf("%d units since 20, the newest at %d: %+v", log.Since(20), log.minStamp(l), v)
	}
}
