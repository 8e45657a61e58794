package memstore

import "github.com/sashlimit/sash/core/internal/window"

// sketch holds the units of the clients that a shard has evicted. Its estimate of
// a client is never too low. It may be too high, or last too long:
//
//   - Units are kept by epoch. So they count for up to an epoch more. An epoch is as
//     long as the window, and of a CoarseLog a sixtieth longer. Of windows beyond the
//     first ownClasses it is two to four times as long.
//   - Numbers of 2048 units and more are rounded up by up to a thousandth. A core.Bucket
//     counts microseconds here, so most of its numbers are rounded.
//   - A cell of 64 bytes has entries for 8 clients; all more share its field others.
//     Two clients share an entry when 16 bits of their hashes agree.
//
// Each class of windows with evicted units has an equal part of the cells, so epochs
// of different lengths do not meet.
type sketch struct {
	pages [][]cell          // of pageCells or all; a page is nil until something is recorded there
	size  int               // how many cells there are, a power of two
	bits  int               // the lowest bits of a cell's number are its part
	spans []int64           // by part: the length of an epoch
	part  [maxClasses]uint8 // by class: the number of its part and 1, or 0
	until int64             // when all units have expired
}

// pageCells is the number of cells that are allocated at a time: all at once would delay a decision.
const pageCells = 256

// estimate is an upper bound of the units of a client under a limit. found reports whether
// the sketch has an entry with the client's fingerprint.
type estimate struct {
	window.EvictedCount
	found bool
}

func newSketch(bytes int64) *sketch {
	size := int(bytes / cellBytes)
	return &sketch{pages: make([][]cell, (size+pageCells-1)/pageCells), size: size}
}

// locate returns the page, the place there and the fingerprint of a client under a limit. The class must have a part.
func (k *sketch) locate(class uint8, h hash, ident uint32) (page *[]cell, at int, fingerprint uint16) {
	mixed := uint64(h) ^ uint64(ident)*0x9e3779b97f4a7c15
	block := int(mixed) & (k.size - 1) >> k.bits << k.bits
	at = block + int(k.part[class]-1)
	return &k.pages[at/pageCells], at % pageCells, uint16(mixed >> 32)
}

// estimate returns the estimate of a client under a limit at now.
func (k *sketch) estimate(b *limitInfo, h hash, ident uint32, now int64) estimate {
	if k == nil || k.part[b.class] == 0 {
		return estimate{}
	}
	page, at, fingerprint := k.locate(b.class, h, ident)
	if *page == nil {
		return estimate{}
	}
	t, found := k.cell(*page, at, now).units(fingerprint, b.EpochAt(now))
	return estimate{window.EvictedCount{Older: t.older.Units(), Newer: t.newer.Units()}, found}
}

// record adds the units of a client under a limit.
func (k *sketch) record(b *limitInfo, h hash, ident uint32, p window.EvictedCount, now int64) {
	if k.part[b.class] == 0 {
		k.add(b)
	}
	page, place, fingerprint := k.locate(b.class, h, ident)
	if *page == nil {
		*page = make([]cell, min(k.size, pageCells))
	}
	at := k.cell(*page, place, now)
	at.advance(b.EpochAt(now))
	at.raise(fingerprint, epochUnits{window.Round(p.Older), window.Round(p.Newer)})
	k.until = max(k.until, b.End(at.epoch)+2*b.W)
}

// add gives a class a part. Where there are as many classes as parts, all parts become half as large.
func (k *sketch) add(b *limitInfo) {
	if len(k.spans) == 1<<k.bits {
		k.bits++
	}
	k.spans = append(k.spans, b.Span)
	k.part[b.class] = uint8(len(k.spans))
}

// cell returns a cell of a page, after it has split the cell's block.
func (k *sketch) cell(page []cell, at int, now int64) *cell {
	k.split(page[at>>k.bits<<k.bits:], k.bits, now)
	return &page[at]
}

// split makes the first cells of block one for each of 2^bits parts. Before, they were one or more blocks with a
// cell for each of fewer parts. It is called for the block of a client: all blocks at once would delay a decision.
func (k *sketch) split(block []cell, bits int, now int64) {
	if int(block[0].bits) == bits {
		return
	}
	half := 1 << (bits - 1)
	k.split(block, bits-1, now)
	k.split(block[half:], bits-1, now)
	for part := range half {
		other := &block[half+part]
		block[part].merge(other, now/k.spans[part])
		*other = cell{}
	}
	block[0].bits = uint8(bits)
}
