package keyfuncs

import (
	"net/netip"
	"strings"
)

// lastElement returns the index at which the last element of a line of Forwarded
// starts.
//
// It reads from the end, so that the result depends on the last element and not on
// the text before it. Read from the start, a quote that a client left open would
// swallow what the proxies appended. A quote seen from the end closes a string, which
// goes back to the next quote without an odd number of backslashes before it. A
// well-formed element has both quotes, so only a comma outside a string ends it. If
// the quotes do not match, the element starts with the line, and parseForwarded
// refuses it.
func lastElement(line string) int {
	quoted := false
	for i := len(line) - 1; i >= 0; i-- {
		switch line[i] {
		case ',':
			if !quoted {
				return i + 1
			}
		case '"':
			backslashes := 0
			for i > 0 && line[i-1] == '\\' {
				backslashes++
				i--
			}
			if backslashes%2 == 0 {
				quoted = !quoted
			}
		}
	}
	return 0
}

// parseForwarded returns the address in the parameter for of one element of
// Forwarded, such as for="[2001:db8::1]:4711";proto=https. All of the element
// must be well-formed, and for must be there once.
func parseForwarded(element string) (addr netip.Addr, ok bool) {
	found := false
	for rest := element; ; {
		rest = trim(rest)
		if rest != "" && rest[0] != ';' { // the grammar allows empty pairs
			var name, value string
			if name, value, rest, ok = cutPair(rest); !ok {
				return netip.Addr{}, false
			}
			if strings.EqualFold(name, "for") {
				if found {
					return netip.Addr{}, false
				}
				if addr, ok = parseForwardedNode(value); !ok {
					return netip.Addr{}, false
				}
				found = true
			}
			rest = trim(rest)
		}
		if rest == "" {
			return addr, found
		}
		if rest[0] != ';' {
			return netip.Addr{}, false
		}
		rest = rest[1:]
	}
}

// cutPair takes name=value off the start of s. The value of a quoted string is
// without the quotes and without the escapes.
func cutPair(s string) (name, value, rest string, ok bool) {
	name, s, ok = strings.Cut(s, "=")
	if !ok || !isToken(name) {
		return "", "", "", false
	}
	if s == "" || s[0] != '"' {
		// More than a token is accepted here, because many proxies leave out the
		// quotes around an address with a colon.
		end := strings.IndexAny(s, "; \t")
		if end < 0 {
			end = len(s)
		}
		value = s[:end]
		return name, value, s[end:], value != "" && !strings.ContainsAny(value, `,"\`)
	}
	escapes := 0
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			escapes++
			i++
		case '"':
			value = s[1:i]
			if escapes > 0 {
				value = unescape(value, escapes)
			}
			return name, value, s[i+1:], true
		}
	}
	return "", "", "", false // the quote is not closed
}

// unescape removes the backslashes of a quoted string with the given number of
// escapes.
func unescape(s string, escapes int) string {
	b := make([]byte, 0, len(s)-escapes)
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
		}
		b = append(b, s[i])
	}
	return string(b)
}

// parseForwardedNode is parseNode with the obfuscated ports that RFC 7239
// allows. An obfuscated or unknown host is not an address.
func parseForwardedNode(s string) (netip.Addr, bool) {
	host, port, hasPort := splitPort(s)
	if hasPort && !isPort(port) && !isObfuscated(port) {
		return netip.Addr{}, false
	}
	return parseHost(host)
}

// isObfuscated reports whether s is an obfuscated identifier of RFC 7239,
// section 6.3.
func isObfuscated(s string) bool {
	if len(s) < 2 || s[0] != '_' {
		return false
	}
	for _, c := range []byte(s[1:]) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
