// Package decimal writes numbers into memory that a response has allocated already for its header's values.
package decimal

import (
	"strconv"
	"unsafe"
)

// String returns the digits of n, as strconv.FormatInt(n, 10) does. The string lies at the end of b, and costs no
// allocation, if n is not negative and fits. The caller must not write to b afterwards: the string would change.
//
// The loop takes half the time of strconv.AppendInt for the short numbers of a response.
func String(b []byte, n int64) string {
	for i, rest := len(b)-1, n; n >= 0 && i >= 0; i, rest = i-1, rest/10 {
		b[i] = byte('0' + rest%10)
		if rest < 10 {
			return Text(b[i:])
		}
	}
	return strconv.FormatInt(n, 10)
}

// Text returns b as a string that lies in the memory of b. The caller must not write to b afterwards: the string would
// change.
//
// Text is the reason why the values of a response's header fields and the digits in them are one allocation. With a
// copy of each value, which is what string(b) makes, a response would take two or three. This function is the only one
// that makes strings with package unsafe.
func Text(b []byte) string {
	// The bytes exist, since the pointer and the length belong to one slice, and
	// the string keeps them alive. The caller promises that they do not change.
	return unsafe.String(unsafe.SliceData(b), len(b))
}
