// Package token knows the tokens of HTTP, such as the names of header fields.
package token

import "strings"

const characters = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// IsValid reports whether s is a token of RFC 9110, section 5.6.2.
func IsValid(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(characters, r) })
}
