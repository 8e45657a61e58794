// Package decimal writes numbers into memory that a response has allocated
// already for its header's values.
package decimal

import (
	"strconv"
	"unsafe"
)

// twoDigits is 000102 and so on.
var twoDigits = func() (b [200]byte) {
	for n := range byte(100) {
		b[2*n], b[2*n+1] = '0'+n/10, '0'+n%10
	}
	return b
}()

// String is strconv.FormatInt(n, 10), and is the end of b if that has room for
// it and for one digit more. Nobody may write there afterwards.
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
	return unsafe.String(&b[i], len(b)-i)
}
