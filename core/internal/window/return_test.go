package window

import "testing"

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
