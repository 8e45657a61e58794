package memstore

import (
	"math/bits"
	"testing"

	"github.com/sashlimit/sash/core"
)

// TestLengthsOfAnIndex: it grows when it would be more than seven eighths full, and shrinks to a quarter when that is
// at most half full: a few slots that come and go do not make it grow and shrink.
func TestLengthsOfAnIndex(t *testing.T) {
	for _, c := range []struct{ index, slots, grown, shrunk int }{
		{0, 0, 0, 0}, {0, 1, 16, 0}, {16, 0, 16, 16}, {16, 14, 16, 16}, {16, 15, 32, 16}, {32, 0, 32, 32},
		{32, 29, 64, 32}, {64, 8, 64, 16}, {64, 9, 64, 64}, {128, 0, 128, 32}, {128, 16, 128, 32},
		{128, 17, 128, 128}, {128, 200, 256, 128},
	} {
		if got := grownIndex(c.index, c.slots); got != c.grown {
			t.Errorf("an index of %d for %d slots grows to %d, want %d", c.index, c.slots, got, c.grown)
		}
		if got := shrunkIndex(c.index, c.slots); got != c.shrunk {
			t.Errorf("an index of %d for %d slots shrinks to %d, want %d", c.index, c.slots, got, c.shrunk)
		}
	}
}

// TestTablesGrowAndShrink: a shard has no chunk that it does not need when it grows, and when it shrinks no more than
// one and a half that are free; and as much for rings as it was asked for.
func TestTablesGrowAndShrink(t *testing.T) {
	s, c := standing(t, bytesPerShard, core.PerDay(10))
	shards := New(WithMaxBytes(maxMaxBytes)).shards
	if shards[0].n = maxSlots; shards[0].grow(need{slots: 1}) {
		t.Error("a table grows beyond what an index can name")
	}
	sh := &s.shards[0]
	const slots = 10 * chunkSlots
	for i := range slots {
		for sh.old != nil {
			sh.migrateSome()
		}
		before := sh.own
		if !sh.grow(need{slots: 1, rings: 16}) || sh.own < before+16 {
			t.Fatalf("slot %d: %d bytes, before %d", i, sh.own, before)
		}
		sh.reserve(-16)
		l := &c.limits[0]
		sh.insert(s.hash(string(rune(i))), l.ident, l.infoNumber)
		if want := i/chunkSlots + 1; len(sh.chunks) != want {
			t.Errorf("%d slots are in %d chunks, want %d", i+1, len(sh.chunks), want)
		}
	}
	for sh.n > 0 {
		want := len(sh.chunks)
		if sh.forget(sh.n / 2); want*chunkSlots-sh.n >= chunkSlots*3/2 {
			want--
		}
		if len(sh.chunks) != want {
			t.Errorf("%d slots are in %d chunks, want %d", sh.n, len(sh.chunks), want)
		}
		if len(sh.index) > 64*16 || sh.n < chunkSlots && len(sh.index) > 256 {
			t.Errorf("%d slots are in an index of %d", sh.n, len(sh.index))
		}
		if sh.n%50 == 0 {
			s.Audit(t)
		}
	}
	for chunks := range 20 {
		sh.grow(need{slots: chunks * chunkSlots})
		sh.release(0)
		for _, c := range sh.chunks[:cap(sh.chunks)] {
			if c != nil || len(sh.chunks) > 0 {
				t.Errorf("of %d free chunks %d are left, or one is still referred to", chunks, len(sh.chunks))
			}
		}
	}
}

// TestDivision: the bytes of a store are those of its shards, of their sketches, a quarter, and of what is common, half
// of the rest.
func TestDivision(t *testing.T) {
	for _, c := range []struct{ size, shards, sketch int64 }{
		{MinMaxBytes, 1, 16 << 10}, {1<<20 - 1, 1, 128 << 10}, {1 << 20, 2, 128 << 10}, {3 << 20, 4, 128 << 10},
		{DefaultMaxBytes, 256, 128 << 10}, {1 << 30, 1024, 256 << 10}, {maxMaxBytes, 1024, 128 << 20},
	} {
		s := &Store{max: c.size}
		s.divide()
		n := int64(len(s.shards))
		if n != c.shards || s.sketchBytes != c.sketch {
			t.Errorf("%d bytes: %d shards with sketches of %d bytes, want %+v", c.size, n, s.sketchBytes, c)
		}
		rest := c.size - n*(shardBytes+s.sketchBytes)
		if common := s.common.Load(); n*s.share+common != rest || common < n*s.share || common > n*(s.share+1) {
			t.Errorf("%d bytes: %d are common, and %d of each of %d shards", c.size, common, s.share, n)
		}
		if all := s.common.Load(); !s.borrow(all) || s.borrow(1) || !s.borrow(-all) || s.common.Load() != all {
			t.Errorf("%d bytes: not all of %d can be borrowed, or more", c.size, all)
		}
		if want := min(4096, s.share/16); s.largeRing != want {
			t.Errorf("%d bytes: a ring of %d is long, want %d", c.size, s.largeRing, want)
		}
		for i := range s.shards { // by the first bits of a hash
			h := hash(1<<63>>(bits.Len64(uint64(n))-1)<<1*uint64(i) | 1)
			if got := s.shard(h); got != &s.shards[i] || got.store != s {
				t.Errorf("%d bytes: %x is not of shard %d", c.size, h, i)
			}
		}
	}
}

// TestClasses: the first windows have epochs of their own lengths; others share them by powers of two, of at least two
// windows, and there are never too many.
func TestClasses(t *testing.T) {
	var r rules
	shortest, longest := core.MinWindow.Microseconds(), core.MaxWindow.Microseconds()
	for i := range int64(ownClasses) {
		if class := r.class(shortest + i); class != uint8(i) || r.spans[class] != shortest+i {
			t.Errorf("window %d: class %d of %v", i, class, r.spans)
		}
	}
	if span := r.spans[r.class(1<<20)]; span != 1<<21 {
		t.Errorf("a window of 2^20 has epochs of %d, want 2^21", span)
	}
	for w := shortest; w <= longest; w += 1 + w/3 {
		class := r.class(w)
		span := r.spans[class]
		shared := span >= 2*w && span < 4*w && span&(span-1) == 0
		if span != w && (!shared || w < shortest+ownClasses) {
			t.Errorf("a window of %d has epochs of %d", w, span)
		}
		if again := r.class(w); again != class {
			t.Errorf("a window of %d is of the classes %d and %d", w, class, again)
		}
	}
	if len(r.spans) > maxClasses {
		t.Errorf("%d classes, want at most %d", len(r.spans), maxClasses)
	}
}
