package memstore

import (
	"math/rand/v2"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// classes returns limits of so many classes.
func classes(n int) []limitInfo {
	infos := make([]limitInfo, n)
	for i := range infos {
		w := int64(1000 * (i + 1))
		limit := window.Limit{N: 1 << 30, W: w, Algorithm: core.SlidingCounter}
		infos[i] = limitInfo{window.Bound{Limit: limit, Span: w}, uint8(i)}
	}
	return infos
}

// TestSketchOfTwo: what is remembered of clients says nothing of others, whether they differ in the key, the limit or
// the class.
func TestSketchOfTwo(t *testing.T) {
	k, now := newSketch(64*cellBytes), int64(500)
	infos := classes(4)
	for i := range uint64(64 * 20) { // more than a cell has entries for
		k.record(&infos[0], hash(i*0x9e3779b97f4a7c15), 1, window.EvictedCount{Newer: 1000}, now)
	}
	for class := range infos {
		b := &infos[class]
		k.record(b, hash(7), 2, window.EvictedCount{Newer: 1}, now)
		for i := range uint64(64) {
			if got := k.estimate(b, hash(i), 2, now); got.Newer > 1 && class > 0 {
				t.Errorf("class %d: %+v of a client, others have 1 unit", class, got)
			}
		}
	}
	for ident := range uint32(20) {
		k.record(&infos[1], hash(5), ident, window.EvictedCount{Newer: int64(ident) + 1}, now)
	}
	for ident := range uint32(20) {
		if got := k.estimate(&infos[1], hash(5), ident, now); got.Newer != int64(ident)+1 || !got.found {
			t.Errorf("limit %d: %+v, want %d units", ident, got, ident+1)
		}
	}
}

// TestSketchForgetsNothing: what a sketch says of a client is at least what the client has counted and at most what any
// has by windows of that class, also when more clients meet in a cell than it has entries, when two have the same
// fingerprint, and when classes come and the cells are divided anew.
func TestSketchForgetsNothing(t *testing.T) {
	type client struct {
		class uint8
		hash  hash
	}
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 8))
		k, now := newSketch(cellBytes*16<<(seed%3)), int64(1_000_000)
		hashes := make([]hash, 40)
		for i := range hashes {
			hashes[i] = hash(rng.Uint64())
			if i > 30 { // another client with the fingerprint of one
				hashes[i] = hashes[i-30] ^ 1<<60
			}
		}
		exact := map[client]map[int64]int64{} // by epoch
		infos := classes(12)
		for step := range 600 {
			now += rng.Int64N(20)
			classes := 1 + step/50
			if seed%2 == 1 { // of which four come at once, so that blocks are divided twice before they are looked at
				classes = 1 + step/200*4
			}
			one := client{uint8(rng.IntN(classes)), hashes[rng.IntN(len(hashes))]}
			b := &infos[one.class]
			epoch := b.EpochAt(now)
			if exact[one] == nil {
				exact[one] = map[int64]int64{}
			}
			exact[one][epoch] += 1 + rng.Int64N(1<<rng.IntN(20))
			p := window.EvictedCount{Older: exact[one][epoch-1], Newer: exact[one][epoch]}
			k.record(b, one.hash, 0, p, now)
			if k.until < now+2*b.W {
				t.Fatalf("seed %d, step %d: over at %d, before two windows from %d", seed, step, k.until, now)
			}
			if step%10 != 0 {
				continue
			}
			var most [12]window.EvictedCount
			for c, units := range exact {
				m, epoch := &most[c.class], infos[c.class].EpochAt(now)
				m.Older, m.Newer = max(m.Older, units[epoch-1]), max(m.Newer, units[epoch])
			}
			for c, units := range exact {
				b := &infos[c.class]
				epoch, got := b.EpochAt(now), k.estimate(b, c.hash, 0, now)
				if got.Newer < units[epoch] || got.Older < units[epoch-1] {
					t.Fatalf("seed %d, step %d: %+v, want %d and %d", seed, step, got, units[epoch-1], units[epoch])
				}
				m := most[c.class]
				if got.Newer > window.Round(m.Newer).Units() || got.Older > window.Round(m.Older).Units() {
					t.Fatalf("seed %d, step %d: %+v, nobody has more than %+v", seed, step, got, m)
				}
			}
		}
	}
}

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
		t.Errorf("after a merge with the fingerprint: %+v of a client with 5 newer units, found: %v", got, found)
	}
	for fingerprint := range uint16(cellEntries + 1) {
		if got, found := empty.units(fingerprint, 0); got.units() < int64(fingerprint)+5 || found != (fingerprint > 0) {
			t.Errorf("after a merge: %+v of a client with %d units, found: %v", got, fingerprint+5, found)
		}
	}
}
