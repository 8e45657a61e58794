// Package token knows the tokens of HTTP, such as the names of header fields.
package token

import "strings"

// IsValid reports whether s is a token of RFC 9110, section 5.6.2.
func IsValid(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return false
		}
		return !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}
