package memstore

import "github.com/sashlimit/sash/core/internal/window"

// sketch holds the counts of the clients that a shard has evicted. An
// evicted client is never held to have counted less than it has; it may be
// held to have counted more, or for longer:
//
//   - Units are kept by epoch. An epoch is as long as the window, and of a CoarseLog a
//     slot longer, so units count for up to a window more.
//   - Numbers of 2048 units and more are rounded up by up to a thousandth.
//   - A bucket of 64 bytes has entries for 8 clients; the others share its rest.
//     Two clients share an entry when 16 bits of their hashes agree.
//
// Epochs of different lengths do not meet: each class of windows that something
// was evicted of has an equal part of the buckets.
type sketch struct {
	buckets []bucket
	size    int               // buckets of a part, a power of two
	spans   []int64           // by part: the length of an epoch
	part    [maxClasses]uint8 // by class: the number of its part and 1, or 0
	until   int64             // when nothing in it will count any more
}

// past holds the counts of a client under a limit by a sketch, and whether the sketch has an
// entry for the client, or for one that it takes for the same.
type past struct {
	window.Past
	known bool
}

func newSketch(bytes int64) *sketch {
	n := int(bytes / bucketBytes)
	return &sketch{buckets: make([]bucket, n), size: n}
}

// spot returns the bucket and the print of a client under a limit. The class
// must have a part.
func (k *sketch) spot(class uint8, h hash, ident uint32) (*bucket, uint16) {
	mixed := h.high ^ uint64(ident)*0x9e3779b97f4a7c15
	i := int(mixed>>16) & (k.size - 1)
	return &k.buckets[int(k.part[class]-1)*k.size+i], uint16(mixed >> 48)
}

// recall returns what is known of a client under a limit as of now.
func (k *sketch) recall(b *bound, h hash, ident uint32, now int64) past {
	if k == nil || k.part[b.class] == 0 {
		return past{}
	}
	at, print := k.spot(b.class, h, ident)
	t, found := at.look(print, b.Number(now))
	return past{window.Past{Older: t.older.Units(), Newer: t.newer.Units()}, found}
}

// remember adds to what is known of a client under a limit.
func (k *sketch) remember(b *bound, h hash, ident uint32, p window.Past, now int64) {
	if k.part[b.class] == 0 {
		k.add(b, now)
	}
	at, print := k.spot(b.class, h, ident)
	at.advance(b.Number(now))
	at.raise(print, tally{window.Round(p.Older), window.Round(p.Newer)})
	k.until = max(k.until, b.End(at.epoch)+2*b.W)
}

// add gives a class a part. Where there are as many classes as parts, all parts
// become half as large.
func (k *sketch) add(b *bound, now int64) {
	n := len(k.spans)
	if (n+1)*k.size > len(k.buckets) {
		k.size /= 2
		for i := range n * k.size {
			part, j := i/k.size, i%k.size
			from := k.buckets[2*part*k.size:]
			merged := from[j]
			merged.merge(&from[k.size+j], now/k.spans[part])
			k.buckets[i] = merged
		}
		clear(k.buckets[n*k.size:])
	}
	k.spans = append(k.spans, b.Span)
	k.part[b.class] = uint8(n + 1)
}
