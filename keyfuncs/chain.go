package keyfuncs

import (
	"net/http"
	"net/netip"
	"strings"
)

const xForwardedFor = "X-Forwarded-For"

// client returns the address of the client from the header of a trusted peer, or the reason why the header cannot be
// trusted.
func (c *ipConfig) client(r *http.Request) (client netip.Addr, reason string) {
	if c.header != "" {
		return parseSingle(r.Header[c.header])
	}
	return c.walk(list{lines: r.Header[xForwardedFor]})
}

// Reasons for OnUntrusted.
const (
	missing   = "missing"
	malformed = "malformed"
	tooShort  = "too_short"
	repeated  = "repeated"
	tooLong   = "too_long"
)

// Bounds of a header, which is read from its end. Chains of proxies are far shorter, but without bounds a client could
// make each request cost milliseconds.
const (
	maxElements = 100
	maxChain    = maxValue // bytes, including commas
)

// parseSingle returns the address in a header that must hold exactly one.
func parseSingle(lines []string) (addr netip.Addr, reason string) {
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

// walk returns the address of the client: it goes from the end of the list past the trusted proxies. Each element was
// appended by the hop after it, so an element counts only if all hops after it are trusted.
func (c *ipConfig) walk(l list) (addr netip.Addr, reason string) {
	for hop := 1; ; hop++ {
		element, ok := l.next()
		switch {
		case l.tooLong, ok && hop > maxElements:
			return netip.Addr{}, tooLong
		case !ok && hop == 1:
			return netip.Addr{}, missing
		case !ok && !c.hasProxies && c.hops > 0:
			return netip.Addr{}, tooShort
		case !ok:
			return addr, "" // all elements are trusted: the first one is the client
		}
		if addr, ok = parseNode(trim(element)); !ok {
			return netip.Addr{}, malformed
		}
		addr = addr.WithZone("")
		switch {
		case hop == c.hops:
			return addr, ""
		case c.hasProxies || c.hops == 0:
			if !c.trusted.contains(addr) {
				return addr, ""
			}
		}
	}
}

// list iterates over a comma-separated list in a header, from its end and without a copy.
type list struct {
	lines   []string // the lines before the current one
	line    string   // the rest of the current line
	hasLine bool     // whether there is a current line
	size    int      // bytes of the elements so far, with a comma for each
	tooLong bool     // the next element exceeds maxChain
}

// next returns the next element from the end. ok is false if there is none, or if the element is too long. An empty
// line has one empty element.
//
// The rest of maxChain, less one byte for a comma, bounds an element. Whether an element is too long does not depend on
// the text before it, which the client may have written.
func (l *list) next() (element string, ok bool) {
	if !l.hasLine {
		if len(l.lines) == 0 {
			return "", false
		}
		n := len(l.lines) - 1
		l.line, l.lines, l.hasLine = l.lines[n], l.lines[:n], true
	}
	rest := maxChain - l.size
	start := max(0, len(l.line)-rest)
	comma := strings.LastIndexByte(l.line[start:], ',')
	switch {
	case comma >= 0:
		comma += start
		element, l.line = l.line[comma+1:], l.line[:comma]
	case len(l.line) >= rest:
		l.tooLong = true
		return "", false
	default:
		element, l.line, l.hasLine = l.line, "", false
	}
	l.size += len(element) + 1
	return element, true
}
