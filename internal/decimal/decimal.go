// Package decimal writes numbers into memory that a response has allocated
// already for its header's values.
package decimal

import "strconv"

// twoDigits holds the two digits of every number below 100: 00, 01, 02 and so on.
var twoDigits = func() (b [200]byte) {
	for n := range byte(100) {
		b[2*n], b[2*n+1] = '0'+n/10, '0'+n%10
	}
	return b
}()

// String returns the digits of n, as strconv.FormatInt(n, 10) does. The string
// lies at the end of b, and costs no allocation, if n is not negative and b has
// room for the digits of n and one more. The caller must not write to b
// afterwards: the string would change. A number that does not fit into b, and a
// negative one, cost an allocation.
func String(b []byte, n int64) string {
	if n < 0 {
		return strconv.FormatInt(n, 10)
	}
	i, rest := len(b), uint64(n)
	for {
		if i -= 2; i < 0 {
			return strconv.FormatInt(n, 10)
		}
		two := rest % 100 * 2
		b[i], b[i+1] = twoDigits[two], twoDigits[two+1]
		if rest /= 100; rest == 0 {
			break
		}
	}
	if b[i] == '0' && len(b)-i > 1 {
		i++
	}
	return Text(b[i:])
}
