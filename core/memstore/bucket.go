package memstore

import "github.com/sashlimit/sash/core/internal/window"

// bucket is a line of the cache in a sketch: what has been counted, in the
// newest epoch and in the one before, for the evicted clients whose hashes lead
// to it. A client is found by its print, 16 more bits of its hash.
//
// For every evicted client, its entry, or rest if no entry has its print, holds
// at least what the client has counted in each epoch. So where two clients meet
// the bucket keeps the greater of their numbers, never less.
type bucket struct {
	epoch  int64 // the newest
	rest   tally
	prints [bucketEntries]uint16
	tally  [bucketEntries]tally // the zero tally is a free entry
	bits   uint8                // of the first bucket of a block of the sketch: see arrange
}

const (
	bucketEntries = 8
	bucketBytes   = 64
)

// tally is units by the epoch in which they were counted.
type tally struct{ older, newer window.Rounded }

func (t tally) max(u tally) tally { return tally{max(t.older, u.older), max(t.newer, u.newer)} }

func (t tally) units() int64 { return t.older.Units() + t.newer.Units() }

// aged returns the tally after so many epochs.
func (t tally) aged(epochs int64) tally {
	switch epochs {
	case 0:
		return t
	case 1:
		return tally{older: t.newer}
	}
	return tally{}
}

// find returns the entry with a print, or -1.
func (b *bucket) find(print uint16) int {
	for i, p := range &b.prints {
		if p == print && b.tally[i] != (tally{}) {
			return i
		}
	}
	return -1
}

// look returns at least what the client of a print has counted, as of an epoch that
// is not before the newest, and whether an entry has the print.
func (b *bucket) look(print uint16, epoch int64) (t tally, found bool) {
	t = b.rest
	i := b.find(print)
	if i >= 0 {
		t = b.tally[i]
	}
	return t.aged(epoch - b.epoch), i >= 0
}

// raise makes the bucket hold at least t for the client of a print. When no
// entry is free, the least of all moves into rest.
func (b *bucket) raise(print uint16, t tally) {
	if i := b.find(print); i >= 0 {
		b.tally[i] = b.tally[i].max(t)
		return
	}
	t = t.max(b.rest) // which other clients of the same print may depend on
	least, units := 0, b.tally[0].units()
	for i := 1; i < bucketEntries && units > 0; i++ {
		if u := b.tally[i].units(); u < units {
			least, units = i, u
		}
	}
	if units >= t.units() {
		b.rest = t
		return
	}
	b.rest = b.rest.max(b.tally[least])
	b.prints[least], b.tally[least] = print, t
}

// advance makes epoch the newest. What is older than the epoch before it is forgotten.
func (b *bucket) advance(epoch int64) {
	epochs := epoch - b.epoch
	if epochs == 0 {
		return
	}
	b.epoch, b.rest = epoch, b.rest.aged(epochs)
	for i := range b.tally {
		b.tally[i] = b.tally[i].aged(epochs)
	}
}

// merge adds the clients of another bucket, as of an epoch.
func (b *bucket) merge(other *bucket, epoch int64) {
	b.advance(epoch)
	other.advance(epoch)
	for i := range b.tally {
		if b.tally[i] != (tally{}) {
			b.tally[i] = b.tally[i].max(other.rest)
		}
	}
	b.rest = b.rest.max(other.rest)
	for i, t := range other.tally {
		if t != (tally{}) {
			b.raise(other.prints[i], t)
		}
	}
}
