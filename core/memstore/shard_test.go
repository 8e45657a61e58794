//go:build !race && !short

package memstore

import (
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// TestSizes: what the accounting supposes of the allocator.
func TestSizes(t *testing.T) {
	for slots := 1; slots <= chunkSlots; slots++ {
		l := layoutOf(slots)
		made := cap(append([]*int(nil), make([]*int, l.last*int(unsafe.Sizeof(slot{}))/8)...)) * 8
		if most := l.bytes(); l.last < slots || l.chunks != 1 || int64(made) > most || most > int64(made)+100 {
			t.Errorf("%d slots are in a chunk of %d with %d bytes, foreseen were %d", slots, l.last, made, most)
		}
	}
	if size := unsafe.Sizeof(slot{}); size != 56 {
		t.Errorf("a slot takes %d bytes", size)
	}
	if size := unsafe.Sizeof(cell{}); size != cellBytes {
		t.Errorf("a cell takes %d bytes, want %d", size, cellBytes)
	}
	if size := unsafe.Sizeof(shard{}); size%64 != 0 {
		t.Errorf("a shard takes %d bytes: a neighbour's lock is in its line of the cache", size)
	}
	for words := 1; words < 20_000; words += 1 + words/4097 { // what takes more than 32 KiB has whole pages
		if got, most := int64(cap(slices.Grow([]int64(nil), words)))*8, ringBound(words); got > most {
			t.Errorf("%d words take %d bytes, foreseen were %d", words, got, most)
		}
	}
	log := window.Limit{N: 1 << 20, W: 1, Algorithm: core.SlidingLog}
	for words := 1; words < 100_000; words += 1 + words/50 {
		var c window.Count
		for c.Words() < words || c.Prepare(log, 0, 1) == 0 {
			c.Add(log, 1, 1)
		}
		foreseen := c.Prepare(log, 0, 1)
		c.Add(log, 1, 1)
		if got, most := ringBytes(&c), ringBound(foreseen); got > most {
			t.Errorf("a ring that was to have %d words takes %d bytes, foreseen were %d", foreseen, got, most)
		}
	}
}

// TestTimePasses: a shard's time is that of the machine, and goes on with its clock.
func TestTimePasses(t *testing.T) {
	s := New()
	if off := time.Since(time.UnixMicro(s.locked(&s.shards[0]))); off.Abs() > time.Hour {
		t.Errorf("the time is off by %v", off)
	}
	s.base = s.base.Add(-time.Hour)
	if passed := s.locked(&s.shards[0]) - s.baseMicros; passed < time.Hour.Microseconds() {
		t.Errorf("%d µs have passed in an hour", passed)
	}
}
