package window

import "math/bits"

// Rounded is a number of units in 16 bits: 11 bits of a number and 5 of a shift.
// Numbers from 2048 on are rounded up, by less than a thousandth.
type Rounded uint16

const (
	roundedBits = 11
	mostRounded = 1<<16 - 1 // about 2^42 units, above every limit
)

// Round returns the least Rounded that is not less than units.
func Round(units int64) Rounded {
	shift := max(0, bits.Len64(uint64(units))-roundedBits)
	n := (units + 1<<shift - 1) >> shift
	if n == 1<<roundedBits {
		n, shift = n/2, shift+1
	}
	if shift > mostRounded>>roundedBits {
		return mostRounded
	}
	return Rounded(shift<<roundedBits | int(n))
}

// Units returns the number.
func (r Rounded) Units() int64 { return int64(r&(1<<roundedBits-1)) << (r >> roundedBits) }
