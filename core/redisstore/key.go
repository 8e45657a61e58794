package redisstore

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/sashlimit/sash/core"
)

// A Redis key is
//
//	prefix:{name/rule/client}:l1m0s
//	prefix:{name/rule/client}:c1h0m0s:hourly
//
// All limits of a client under a rule share what stands in braces, and so the
// hash slot on a cluster. Behind it: the algorithm's letter (see formatOf), the
// window, and the limit's name if it is not the window's.

// maxClient is the length up to which a client's name stands in the key as it
// is, escaped. A longer one is replaced by its hash.
const maxClient = 64

// appendTag writes the braces and what is in them. Different names, rules and
// clients never give the same tag: '/' and '#' are escaped where they would be
// mistaken for the separator or for the mark of a hash.
func appendTag(dst []byte, name, rule, client string) []byte {
	dst = append(dst, '{')
	dst = appendEscaped(dst, name, '/')
	dst = append(dst, '/')
	dst = appendEscaped(dst, rule, '/')
	dst = append(dst, '/')
	start := len(dst)
	if len(client) <= maxClient {
		dst = appendEscaped(dst, client, '#')
	}
	if n := len(dst) - start; n == 0 || n > maxClient {
		sum := sha256.Sum256([]byte(client))
		dst = append(dst[:start], '#')
		dst = base64.RawURLEncoding.AppendEncode(dst, sum[:])
	}
	return append(dst, '}')
}

// appendEscaped writes s with everything but visible ASCII, and what has a
// meaning in a key, as %XX.
func appendEscaped(dst []byte, s string, also byte) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		switch c := s[i]; {
		case c <= ' ' || c > '~' || c == '%' || c == '{' || c == '}' || c == also:
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// suffix returns what stands in a key behind the braces.
func suffix(l core.Limit) string {
	s := ":" + formatOf(l.Algorithm).letter + l.Window.String()
	if l.Name != l.Window.String() {
		s += ":" + l.Name
	}
	return s
}
