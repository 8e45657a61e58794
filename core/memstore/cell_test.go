package memstore

import (
	"testing"

	"github.com/sashlimit/sash/core/internal/window"
)

// TestMergeWithAnEmptyCell: an entry that is free stands for no client, not even for one with the
// fingerprint 0. The field others of one cell is not lost in the entries of the other, free or not.
func TestMergeWithAnEmptyCell(t *testing.T) {
	var empty, full cell
	if got, found := empty.units(0, 0); found || got != (epochUnits{}) {
		t.Errorf("an empty cell says %+v of a client, found: %v", got, found)
	}
	var ones cell
	for fingerprint := range uint16(cellEntries) {
		ones.raise(fingerprint, epochUnits{newer: 1})
	}
	if ones.others != (epochUnits{}) {
		t.Errorf("as many clients as entries: %+v in others", ones.others)
	}
	if ones.raise(99, epochUnits{newer: 1}); ones.others != (epochUnits{newer: 1}) || ones.find(99) >= 0 {
		t.Errorf("%+v: one client more, who has no more units than others, is not in others alone", ones)
	}
	for fingerprint := range uint16(cellEntries + 1) { // the first has the least
		full.raise(fingerprint, epochUnits{newer: window.Round(int64(fingerprint) + 5)})
	}
	empty.merge(&full, 0)
	var large cell // its client and the one in others of the other have the same fingerprint
	large.raise(0, epochUnits{older: 100, newer: 1})
	large.merge(&full, 0)
	if got, found := large.units(0, 0); got.newer.Units() < 5 || !found {
		t.Errorf("after a merge with an entry of that fingerprint: %+v of a client with 5 newer units, found: %v", got, found)
	}
	for fingerprint := range uint16(cellEntries + 1) {
		if got, found := empty.units(fingerprint, 0); got.units() < int64(fingerprint)+5 || found != (fingerprint > 0) {
			t.Errorf("after a merge: %+v of a client with %d units, found: %v", got, fingerprint+5, found)
		}
	}
}
