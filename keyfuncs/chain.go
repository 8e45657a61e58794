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

// client reads from the header of a trusted peer who the client is. The reason
// is empty if it could.
func (c *ipConfig) client(r *http.Request) (netip.Addr, Reason) {
	switch {
	case c.header != "":
		return single(r.Header[c.header])
	case c.forwarded:
		return c.walk(list{lines: r.Header[forwarded], quoted: true})
	}
	return c.walk(list{lines: r.Header[xForwardedFor]})
}

// single reads a header that must hold one address.
func single(lines []string) (netip.Addr, Reason) {
	switch {
	case len(lines) == 0:
		return netip.Addr{}, HeaderMissing
	case len(lines) > 1 || strings.IndexByte(lines[0], ',') >= 0:
		return netip.Addr{}, HeaderRepeated
	}
	addr, ok := parseNode(trim(lines[0]))
	if !ok {
		return netip.Addr{}, HeaderMalformed
	}
	return addr.WithZone(""), ""
}

// walk goes from the end of the list past the trusted proxies to the client.
// Each element was appended by the hop after it, so it may be looked at only if
// all hops after it are trusted.
func (c *ipConfig) walk(l list) (netip.Addr, Reason) {
	var addr netip.Addr
	for hop := 1; ; hop++ {
		element, ok := l.last()
		switch {
		case !ok && hop == 1:
			return netip.Addr{}, HeaderMissing
		case !ok && !c.proxiesGiven && c.hops > 0:
			return netip.Addr{}, HeaderTooShort
		case !ok:
			return addr, "" // all of them are trusted
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
	lines  []string // not yet begun
	line   string   // what is left of the line that was begun
	begun  bool
	quoted bool // commas inside quoted strings separate nothing
}

// last returns the last element and takes it off; it is not ok at the end. An
// empty line has one empty element.
func (l *list) last() (element string, ok bool) {
	if !l.begun {
		if len(l.lines) == 0 {
			return "", false
		}
		n := len(l.lines) - 1
		l.line, l.lines, l.begun = l.lines[n], l.lines[:n], true
	}
	var comma int
	if l.quoted {
		comma = lastElement(l.line) - 1
	} else {
		comma = strings.LastIndexByte(l.line, ',')
	}
	if comma < 0 {
		element, l.line, l.begun = l.line, "", false
		return element, true
	}
	element, l.line = l.line[comma+1:], l.line[:comma]
	return element, true
}
