package keyfuncs

import (
	"net/http"
	"net/netip"
	"strings"
)

const (
	xForwardedFor = "X-Forwarded-For"
	forwarded     = "Forwarded"
)

// client returns the address of the client from the header of a trusted peer. If
// the header cannot be believed, it returns the reason, else an empty one.
func (c *ipConfig) client(r *http.Request) (netip.Addr, Reason) {
	switch {
	case c.header != "":
		return single(r.Header[c.header])
	case c.forwarded:
		return c.walk(list{lines: r.Header[forwarded], quoted: true})
	}
	return c.walk(list{lines: r.Header[xForwardedFor]})
}

// A request's header is read from its end until the client is found or one of these
// bounds is reached. Chains of proxies are shorter by far. Without a bound, a client
// could make each request cost milliseconds.
const (
	maxElements = 100
	maxChain    = maxValue // bytes, with the commas
)

// single returns the address in a header that must hold exactly one.
func single(lines []string) (netip.Addr, Reason) {
	switch {
	case len(lines) == 0:
		return netip.Addr{}, HeaderMissing
	case len(lines) > 1:
		return netip.Addr{}, HeaderRepeated
	case len(lines[0]) > maxValue:
		return netip.Addr{}, HeaderTooLong
	case strings.IndexByte(lines[0], ',') >= 0:
		return netip.Addr{}, HeaderRepeated
	}
	addr, ok := parseNode(trim(lines[0]))
	if !ok {
		return netip.Addr{}, HeaderMalformed
	}
	return addr.WithZone(""), ""
}

// walk goes from the end of the list past the trusted proxies to the client.
// Each element was appended by the hop after it, so an element may be read only if
// all hops after it are trusted.
func (c *ipConfig) walk(l list) (netip.Addr, Reason) {
	var addr netip.Addr
	for hop := 1; ; hop++ {
		element, ok := l.last()
		switch {
		case l.tooLong, ok && hop > maxElements:
			return netip.Addr{}, HeaderTooLong
		case !ok && hop == 1:
			return netip.Addr{}, HeaderMissing
		case !ok && !c.proxiesGiven && c.hops > 0:
			return netip.Addr{}, HeaderTooShort
		case !ok:
			return addr, "" // all elements are trusted proxies: the first one is the client
		}
		if l.quoted {
			addr, ok = parseForwarded(element)
		} else {
			addr, ok = parseNode(trim(element))
		}
		if !ok {
			return netip.Addr{}, HeaderMalformed
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

// list gives the elements of a header that is a comma-separated list, the last
// one first. It keeps its place in the text and copies nothing.
type list struct {
	lines   []string // the lines that were not begun yet
	line    string   // the rest of the line that was begun
	begun   bool     // whether line is valid
	quoted  bool     // commas inside quoted strings separate nothing
	taken   int      // the bytes of the elements taken off, with a comma for each
	tooLong bool     // the last element reaches beyond maxChain
}

// last takes off the last element and returns it. ok is false if no element is left,
// or if the element is too long. An empty line has one empty element.
//
// An element may have as many bytes as are left of maxChain, less one for the comma
// before it. The text before an element, which the client may have written, does not
// decide whether the element is too long, whether there is such a text or not.
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
	comma := l.lastComma(l.line[start:])
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

// lastComma returns the index of the comma before the last element of s, or -1.
func (l *list) lastComma(s string) int {
	if l.quoted {
		return lastElement(s) - 1
	}
	return strings.LastIndexByte(s, ',')
}
