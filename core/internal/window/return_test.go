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
	if n := log.Return(log.last, 1); n != 1 {
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
