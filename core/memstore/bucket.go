package memstore

import "github.com/sashlimit/sash/core/internal/window"

// bucket is a cache line of a sketch: the units of the newest epoch and of the one
// before, for the evicted clients whose hashes lead to it. An entry is found by
// its print, 16 more bits of the hash.
//
// The entry of an evicted client, or rest if no entry has its print, holds at
// least the client's units in each epoch. Where two clients share an entry, it
// holds the greater numbers.
type bucket struct {
	epoch  int64 // the newest
	rest   epochUnits
	prints [bucketEntries]uint16
	counts [bucketEntries]epochUnits // a zero entry is free
	bits   uint8                     // in the first bucket of a block; see sketch.split
}

const (
	bucketEntries = 8
	bucketBytes   = 64
)

// epochUnits is units by epoch.
type epochUnits struct{ older, newer window.Rounded }

func (t epochUnits) max(u epochUnits) epochUnits {
	return epochUnits{max(t.older, u.older), max(t.newer, u.newer)}
}

func (t epochUnits) units() int64 { return t.older.Units() + t.newer.Units() }

// after returns the units a number of epochs later.
func (t epochUnits) after(epochs int64) epochUnits {
	switch epochs {
	case 0:
		return t
	case 1:
		return epochUnits{older: t.newer}
	}
	return epochUnits{}
}

// find returns the entry with a print, or -1.
func (b *bucket) find(print uint16) int {
	for i, p := range &b.prints {
		if p == print && b.counts[i] != (epochUnits{}) {
			return i
		}
	}
	return -1
}

// units returns an upper bound of the units of the client with a print, as of an epoch
// that is not before the newest. found reports whether an entry has the print.
func (b *bucket) units(print uint16, epoch int64) (t epochUnits, found bool) {
	t = b.rest
	i := b.find(print)
	if i >= 0 {
		t = b.counts[i]
	}
	return t.after(epoch - b.epoch), i >= 0
}

// raise makes the bucket hold at least t for the client with a print. If no entry is
// free, the least of all moves into rest.
func (b *bucket) raise(print uint16, t epochUnits) {
	if i := b.find(print); i >= 0 {
		b.counts[i] = b.counts[i].max(t)
		return
	}
	t = t.max(b.rest) // other clients with the same print may depend on it
	least, units := 0, b.counts[0].units()
	for i := 1; i < bucketEntries && units > 0; i++ {
		if u := b.counts[i].units(); u < units {
			least, units = i, u
		}
	}
	if units >= t.units() {
		b.rest = t
		return
	}
	b.rest = b.rest.max(b.counts[least])
	b.prints[least], b.counts[least] = print, t
}

// advance makes epoch the newest. It discards units older than the epoch before.
func (b *bucket) advance(epoch int64) {
	epochs := epoch - b.epoch
	if epochs == 0 {
		return
	}
	b.epoch, b.rest = epoch, b.rest.after(epochs)
	for i := range b.counts {
		b.counts[i] = b.counts[i].after(epochs)
	}
}

// merge adds the clients of another bucket, as of an epoch.
func (b *bucket) merge(other *bucket, epoch int64) {
	b.advance(epoch)
	other.advance(epoch)
	for i := range b.counts {
		if b.counts[i] != (epochUnits{}) {
			b.counts[i] = b.counts[i].max(other.rest)
		}
	}
	b.rest = b.rest.max(other.rest)
	for i, t := range other.counts {
		if t != (epochUnits{}) {
			b.raise(other.prints[i], t)
		}
	}
}
