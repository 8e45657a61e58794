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
//   - A bucket of 64 bytes has entries for 8 clients; the others share its rest.
//     Two clients share an entry when 16 bits of their hashes agree.
//
// Each class of windows with evicted units has an equal part of the buckets, so epochs
// of different lengths do not meet.
type sketch struct {
	pages [][]bucket        // of pageBuckets or all; a page is nil until something is recorded there
	size  int               // how many buckets there are, a power of two
	bits  int               // the lowest bits of a bucket's number are its part
	spans []int64           // by part: the length of an epoch
	part  [maxClasses]uint8 // by class: the number of its part and 1, or 0
	until int64             // when all units have expired
}

// pageBuckets is the number of buckets that are allocated at a time: all at once would delay a decision.
const pageBuckets = 256

// estimate is an upper bound of the units of a client under a limit. found reports whether
// the sketch has an entry with the client's print.
type estimate struct {
	window.EvictedCount
	found bool
}

func newSketch(bytes int64) *sketch {
	size := int(bytes / bucketBytes)
	return &sketch{pages: make([][]bucket, (size+pageBuckets-1)/pageBuckets), size: size}
}

// locate returns the page, the place there and the print of a client under a limit. The class must have a part.
func (k *sketch) locate(class uint8, h hash, ident uint32) (page *[]bucket, at int, print uint16) {
	mixed := uint64(h) ^ uint64(ident)*0x9e3779b97f4a7c15
	block := int(mixed) & (k.size - 1) >> k.bits << k.bits
	at = block + int(k.part[class]-1)
	return &k.pages[at/pageBuckets], at % pageBuckets, uint16(mixed >> 32)
}

// estimate returns the estimate of a client under a limit at now.
func (k *sketch) estimate(b *bound, h hash, ident uint32, now int64) estimate {
	if k == nil || k.part[b.class] == 0 {
		return estimate{}
	}
	page, at, print := k.locate(b.class, h, ident)
	if *page == nil {
		return estimate{}
	}
	t, found := k.bucket(*page, at, now).units(print, b.Number(now))
	return estimate{window.EvictedCount{Older: t.older.Units(), Newer: t.newer.Units()}, found}
}

// record adds the units of a client under a limit.
func (k *sketch) record(b *bound, h hash, ident uint32, p window.EvictedCount, now int64) {
	if k.part[b.class] == 0 {
		k.add(b)
	}
	page, place, print := k.locate(b.class, h, ident)
	if *page == nil {
		*page = make([]bucket, min(k.size, pageBuckets))
	}
	at := k.bucket(*page, place, now)
	at.advance(b.Number(now))
	at.raise(print, epochUnits{window.Round(p.Older), window.Round(p.Newer)})
	k.until = max(k.until, b.End(at.epoch)+2*b.W)
}

// add gives a class a part. Where there are as many classes as parts, all parts become half as large.
func (k *sketch) add(b *bound) {
	if len(k.spans) == 1<<k.bits {
		k.bits++
	}
	k.spans = append(k.spans, b.Span)
	k.part[b.class] = uint8(len(k.spans))
}

// bucket returns a bucket of a page, after it has split the bucket's block.
func (k *sketch) bucket(page []bucket, at int, now int64) *bucket {
	k.split(page[at>>k.bits<<k.bits:], k.bits, now)
	return &page[at]
}

// split makes the first buckets of block one for each of 2^bits parts. Before, they were one or more blocks with a
// bucket for each of fewer parts. It is called for the block of a client: all blocks at once would delay a decision.
func (k *sketch) split(block []bucket, bits int, now int64) {
	if int(block[0].bits) == bits {
		return
	}
	half := 1 << (bits - 1)
	k.split(block, bits-1, now)
	k.split(block[half:], bits-1, now)
	for part := range half {
		other := &block[half+part]
		block[part].merge(other, now/k.spans[part])
		*other = bucket{}
	}
	block[0].bits = uint8(bits)
}
