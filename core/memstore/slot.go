package memstore

import "github.com/sashlimit/sash/core/internal/window"

// slot is one client under one limit, in 56 bytes.
type slot struct {
	hash  hash
	ident uint32 // the number of the limit's identity
	bound uint32 // the number in rules of the bound it was last held against, and flags
	count window.Count
}

// The flags stand above the numbers of bounds, of which a store of the greatest size
// holds less than 2^30.
const (
	hides    = 1 << 30 // the sketch still has counts of the client; this slot overrides them
	forgiven = 1 << 31 // a Reset made the slot

	numberMask = hides - 1

	_ = uint(numberMask - maxMaxBytes/rulesShare/boundBytes) // compiles if the numbers fit
)

func (s *slot) is(flag uint32) bool { return s.bound&flag != 0 }

func (s *slot) mark(flags uint32) { s.bound |= flags }

// number returns the number of the bound.
func (s *slot) number() uint32 { return s.bound & numberMask }

// hold holds the slot against another bound of the same ident.
func (s *slot) hold(number uint32) { s.bound = s.bound&^numberMask | number }
