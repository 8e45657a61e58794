package memstore

import "github.com/sashlimit/sash/core/internal/window"

// cell is a cache line of a sketch: the units of the newest epoch and of the one
// before, for the evicted clients whose hashes lead to it. An entry is found by
// its fingerprint, 16 more bits of the hash.
//
// The entry of an evicted client, or others if no entry has its fingerprint, holds at
// least the client's units in each epoch. Where two clients share an entry, it
// holds the greater numbers.
type cell struct {
	epoch        int64 // the newest
	others       epochUnits
	fingerprints [cellEntries]uint16
	counts       [cellEntries]epochUnits // a zero entry is free
	bits         uint8                   // in the first cell of a block; see sketch.split
}

const (
	cellEntries = 8
	cellBytes   = 64
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

// find returns the entry with a fingerprint, or -1.
func (c *cell) find(fingerprint uint16) int {
	for i, p := range &c.fingerprints {
		if p == fingerprint && c.counts[i] != (epochUnits{}) {
			return i
		}
	}
	return -1
}

// units returns an upper bound of the units of the client with a fingerprint, as of an epoch
// that is not before the newest. found reports whether an entry has the fingerprint.
func (c *cell) units(fingerprint uint16, epoch int64) (t epochUnits, found bool) {
	t = c.others
	i := c.find(fingerprint)
	if i >= 0 {
		t = c.counts[i]
	}
	return t.after(epoch - c.epoch), i >= 0
}

// raise makes the cell hold at least t for the client with a fingerprint. If no entry is
// free, the least of all moves into others.
func (c *cell) raise(fingerprint uint16, t epochUnits) {
	if i := c.find(fingerprint); i >= 0 {
		c.counts[i] = c.counts[i].max(t)
		return
	}
	t = t.max(c.others) // other clients with the same fingerprint may depend on it
	least, units := 0, c.counts[0].units()
	for i := 1; i < cellEntries && units > 0; i++ {
		if u := c.counts[i].units(); u < units {
			least, units = i, u
		}
	}
	if units >= t.units() {
		c.others = t
		return
	}
	c.others = c.others.max(c.counts[least])
	c.fingerprints[least], c.counts[least] = fingerprint, t
}

// advance makes epoch the newest. It discards units older than the epoch before.
func (c *cell) advance(epoch int64) {
	epochs := epoch - c.epoch
	if epochs == 0 {
		return
	}
	c.epoch, c.others = epoch, c.others.after(epochs)
	for i := range c.counts {
		c.counts[i] = c.counts[i].after(epochs)
	}
}

// merge adds the clients of another cell, as of an epoch.
func (c *cell) merge(other *cell, epoch int64) {
	c.advance(epoch)
	other.advance(epoch)
	for i := range c.counts {
		if c.counts[i] != (epochUnits{}) {
			c.counts[i] = c.counts[i].max(other.others)
		}
	}
	c.others = c.others.max(other.others)
	for i, t := range other.counts {
		if t != (epochUnits{}) {
			c.raise(other.fingerprints[i], t)
		}
	}
}
