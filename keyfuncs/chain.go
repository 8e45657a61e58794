package keyfuncs

import (
	"net/http"
	"net/netip"
	"strings"
)

const xForwardedFor = "X-Forwarded-For"

// client returns the address of the client from the header of a trusted peer. If the header cannot be believed, it
// returns the reason, else an empty one.
func (c *ipConfig) client(r *http.Request) (client netip.Addr, reason string) {
	if c.header != "" {
		return single(r.Header[c.header])
	}
	return c.walk(list{lines: r.Header[xForwardedFor]})
}

// The reasons for OnUntrusted.
const (
	missing   = "missing"
	malformed = "malformed"
	tooShort  = "too_short"
	repeated  = "repeated"
	tooLong   = "too_long"
)

// A request's header is read from its end until the client is found or one of these bounds is reached. Chains of
// proxies are shorter by far. Without a bound, a client could make each request cost milliseconds.
const (
	maxElements = 100
	maxChain    = maxValue // bytes, with the commas
)

// single returns the address in a header that must hold exactly one.
func single(lines []string) (addr netip.Addr, reason string) {
	switch {
	case len(lines) == 0:
		return netip.Addr{}, missing
	case len(lines) > 1:
		return netip.Addr{}, repeated
	case len(lines[0]) > maxValue:
		return netip.Addr{}, tooLong
	case strings.IndexByte(lines[0], ',') >= 0:
		return netip.Addr{}, repeated
	}
	addr, ok := parseNode(trim(lines[0]))
	if !ok {
		return netip.Addr{}, malformed
	}
	return addr.WithZone(""), ""
}

// walk goes from the end of the list past the trusted proxies to the client. Each element was appended by the hop
// after it, so an element may be read only if all hops after it are trusted.
func (c *ipConfig) walk(l list) (addr netip.Addr, reason string) {
	for hop := 1; ; hop++ {
		element, ok := l.last()
		switch {
		case l.tooLong, ok && hop > maxElements:
			return netip.Addr{}, tooLong
		case !ok && hop == 1:
			return netip.Addr{}, missing
		case !ok && !c.proxiesGiven && c.hops > 0:
			return netip.Addr{}, tooShort
		case !ok:
			return addr, "" // all elements are trusted proxies: the first one is the client
		}
		if addr, ok = parseNode(trim(element)); !ok {
			return netip.Addr{}, malformed
		}
		addr = addr.WithZone("")
		switch {
		case hop == c.hops:
			return addr, ""
		case c.proxiesGiven || c.hops == 0:
			if !c.trusted.contains(addr) {
				return addr, ""
			}
		}
	}
}

// list gives the elements of a header that is a comma-separated list, the last one first. It keeps its place in the
// text and copies nothing.
type list struct {
	lines   []string // the lines that were not begun yet
	line    string   // the rest of the line that was begun
	begun   bool     // whether line is valid
	taken   int      // the bytes of the elements taken off, with a comma for each
	tooLong bool     // the last element reaches beyond maxChain
}

// last takes off the last element and returns it. ok is false if no element is left, or if the element is too long.
// An empty line has one empty element.
//
// An element may have as many bytes as are left of maxChain, less one for the comma before it. The text before an
// element, which the client may have written, does not decide whether the element is too long, whether there is such
// a text or not.
func (l *list) last() (element string, ok bool) {
	if !l.begun {
		if len(l.lines) == 0 {
			return "", false
		}
		n := len(l.lines) - 1
		l.line, l.lines, l.begun = l.lines[n], l.lines[:n], true
	}
	left := maxChain - l.taken
	start := max(0, len(l.line)-left)
	comma := strings.LastIndexByte(l.line[start:], ',')
	switch {
	case comma >= 0:
		comma += start
		element, l.line = l.line[comma+1:], l.line[:comma]
	case len(l.line) >= left:
		l.tooLong = true
		return "", false
	default:
		element, l.line, l.begun = l.line, "", false
	}
	l.taken += len(element) + 1
	return element, true
}
