package memstore

import "github.com/sashlimit/sash/core/internal/window"

// sketch holds the counts of the clients that a shard has evicted. An
// evicted client is never held to have counted less than it has; it may be
// held to have counted more, or for longer:
//
//   - Units are kept by epoch. An epoch is as long as the window, and of a CoarseLog a
//     slot longer, so units count for up to a window more.
//   - Numbers of 2048 units and more are rounded up by up to a thousandth: of a core.Bucket,
//     which owes microseconds, mostly all.
//   - A bucket of 64 bytes has entries for 8 clients; the others share its rest.
//     Two clients share an entry when 16 bits of their hashes agree.
//
// Epochs of different lengths do not meet: each class of windows that something
// was evicted of has an equal part of the buckets.
type sketch struct {
	pages [][]bucket        // of pageBuckets or all; nil until something is remembered there
	size  int               // how many buckets there are, a power of two
	bits  int               // the lowest of the number of a bucket: the part
	spans []int64           // by part: the length of an epoch
	part  [maxClasses]uint8 // by class: the number of its part and 1, or 0
	until int64             // when nothing in it will count any more
}

// pageBuckets is how many buckets are made at a time: to make all would keep a decision for long.
const pageBuckets = 256

// past holds the counts of a client under a limit by a sketch, and whether the sketch has an
// entry for the client, or for one that it takes for the same.
type past struct {
	window.EvictedCount
	known bool
}

func newSketch(bytes int64) *sketch {
	size := int(bytes / bucketBytes)
	return &sketch{pages: make([][]bucket, (size+pageBuckets-1)/pageBuckets), size: size}
}

// spot returns the page, the place there and the print of a client under a limit. The class must have a part.
func (k *sketch) spot(class uint8, h hash, ident uint32) (page *[]bucket, at int, print uint16) {
	mixed := uint64(h) ^ uint64(ident)*0x9e3779b97f4a7c15
	block := int(mixed) & (k.size - 1) >> k.bits << k.bits
	at = block + int(k.part[class]-1)
	return &k.pages[at/pageBuckets], at % pageBuckets, uint16(mixed >> 32)
}

// recall returns what is known of a client under a limit as of now.
func (k *sketch) recall(b *bound, h hash, ident uint32, now int64) past {
	if k == nil || k.part[b.class] == 0 {
		return past{}
	}
	page, at, print := k.spot(b.class, h, ident)
	if *page == nil {
		return past{}
	}
	t, found := k.bucket(*page, at, now).look(print, b.Number(now))
	return past{window.EvictedCount{Older: t.older.Units(), Newer: t.newer.Units()}, found}
}

// remember adds to what is known of a client under a limit.
func (k *sketch) remember(b *bound, h hash, ident uint32, p window.EvictedCount, now int64) {
	if k.part[b.class] == 0 {
		k.add(b)
	}
	page, place, print := k.spot(b.class, h, ident)
	if *page == nil {
		*page = make([]bucket, min(k.size, pageBuckets))
	}
	at := k.bucket(*page, place, now)
	at.advance(b.Number(now))
	at.raise(print, tally{window.Round(p.Older), window.Round(p.Newer)})
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

// bucket returns a bucket of a page, whose block it arranges.
func (k *sketch) bucket(page []bucket, at int, now int64) *bucket {
	k.arrange(page[at>>k.bits<<k.bits:], k.bits, now)
	return &page[at]
}

// arrange makes the first buckets one of each part. They were one or more blocks before, each with a bucket of fewer
// parts. It is called when a client is looked for there: all blocks at once would keep a decision for long.
func (k *sketch) arrange(block []bucket, bits int, now int64) {
	if int(block[0].bits) == bits {
		return
	}
	half := 1 << (bits - 1)
	k.arrange(block, bits-1, now)
	k.arrange(block[half:], bits-1, now)
	for part := range half {
		other := &block[half+part]
		block[part].merge(other, now/k.spans[part])
		*other = bucket{}
	}
	block[0].bits = uint8(bits)
}
