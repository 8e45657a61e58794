package memstore

import (
	"testing"

	"github.com/sashlimit/sash/core/internal/window"
)

// TestMergeWithAnEmptyBucket: an entry that is free stands for no client, not even for one whose print is 0. What one
// bucket has in its rest is not lost in the other's entries, free or not.
func TestMergeWithAnEmptyBucket(t *testing.T) {
	var empty, full bucket
	if got, found := empty.units(0, 0); found || got != (epochUnits{}) {
		t.Errorf("an empty bucket says %+v of a client, found: %v", got, found)
	}
	var ones bucket
	for print := range uint16(bucketEntries) {
		ones.raise(print, epochUnits{newer: 1})
	}
	if ones.rest != (epochUnits{}) {
		t.Errorf("as many clients as entries: %+v in the rest", ones.rest)
	}
	if ones.raise(99, epochUnits{newer: 1}); ones.rest != (epochUnits{newer: 1}) || ones.find(99) >= 0 {
		t.Errorf("%+v: one client more, who has no more units than others, is not in the rest alone", ones)
	}
	for print := range uint16(bucketEntries + 1) { // the first has the least
		full.raise(print, epochUnits{newer: window.Round(int64(print) + 5)})
	}
	empty.merge(&full, 0)
	var large bucket // its client and the one in the other's rest have the same print
	large.raise(0, epochUnits{older: 100, newer: 1})
	large.merge(&full, 0)
	if got, found := large.units(0, 0); got.newer.Units() < 5 || !found {
		t.Errorf("after a merge with an entry of that print: %+v of a client with 5 newer units, found: %v", got, found)
	}
	for print := range uint16(bucketEntries + 1) {
		if got, found := empty.units(print, 0); got.units() < int64(print)+5 || found != (print > 0) {
			t.Errorf("after a merge: %+v of a client with %d units, found: %v", got, print+5, found)
		}
	}
}
