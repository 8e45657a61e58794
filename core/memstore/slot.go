package memstore

import "github.com/sashlimit/sash/core/internal/window"

// slot is one client under one limit, in 56 bytes.
type slot struct {
	hash  hash
	ident uint32 // the number of the limit's identity
	info  uint32 // the number of the limitInfo of its latest request, and flags
	count window.Count
}

// The flags are the bits above the number. The largest store has less than 2^30
// numbers.
const (
	overrides = 1 << 30 // the slot overrides units of the client in the sketch
	wasReset  = 1 << 31 // a Reset made the slot

	numberMask = overrides - 1

	_ = uint(numberMask - maxMaxBytes/rulesShare/infoBytes) // compiles if the numbers fit
)

func (s *slot) is(flag uint32) bool { return s.info&flag != 0 }

func (s *slot) mark(flags uint32) { s.info |= flags }

// infoNumber returns the number of the limitInfo.
func (s *slot) infoNumber() uint32 { return s.info & numberMask }

// setInfo makes another limitInfo of the same ident the slot's.
func (s *slot) setInfo(number uint32) { s.info = s.info&^numberMask | number }
