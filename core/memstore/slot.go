package memstore

import "github.com/sashlimit/sash/core/internal/window"

// slot is one client under one limit, in 56 bytes.
type slot struct {
	hash  hash
	ident uint32 // the number of the limit's identity
	bound uint32 // the number of the bound of its latest request, and flags
	count window.Count
}

// The flags are the bits above the numbers of bounds. The largest store has less than
// 2^30 bounds.
const (
	overrides = 1 << 30 // the slot overrides units of the client in the sketch
	wasReset  = 1 << 31 // a Reset made the slot

	numberMask = overrides - 1

	_ = uint(numberMask - maxMaxBytes/rulesShare/boundBytes) // compiles if the numbers fit
)

func (s *slot) is(flag uint32) bool { return s.bound&flag != 0 }

func (s *slot) mark(flags uint32) { s.bound |= flags }

// number returns the number of the bound.
func (s *slot) number() uint32 { return s.bound & numberMask }

// setBound makes another bound of the same ident the slot's.
func (s *slot) setBound(number uint32) { s.bound = s.bound&^numberMask | number }
