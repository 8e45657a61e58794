package keyfuncs

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

const xForwardedFor = "X-Forwarded-For"

// client returns the address of the client from the header of a trusted peer, or the reason why the header cannot be
// trusted.
func (c *ipConfig) client(r *http.Request) (client netip.Addr, reason string) {
	if c.header != "" {
		return parseSingle(r.Header[c.header])
	}
	return c.walk(r.Header[xForwardedFor])
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
// appended by the hop after it, so an element counts only if all hops after it are trusted. An empty line has one empty
// element. Whether an element is too long does not depend on the text before it, which the client may have written.
func (c *ipConfig) walk(lines []string) (addr netip.Addr, reason string) {
	hop, size := 0, 0 // the elements so far, and their bytes, with a comma for each
	hopsAlone := c.hops > 0 && len(c.trusted) == 0
	for _, line := range slices.Backward(lines) {
		line = line[max(0, len(line)-maxChain):] // the first element of a line that was cut is too long
		for comma := len(line); comma >= 0; {
			line = line[:comma]
			comma = strings.LastIndexByte(line, ',')
			element := line[comma+1:]
			hop++
			size += len(element) + 1
			if hop > maxElements || size > maxChain {
				return netip.Addr{}, tooLong
			}
			var ok bool
			if addr, ok = parseNode(trim(element)); !ok {
				return netip.Addr{}, malformed
			}
			addr = addr.WithZone("")
			if hop == c.hops || !hopsAlone && !c.trusted.contains(addr) {
				return addr, ""
			}
		}
	}
	switch {
	case hop == 0:
		return netip.Addr{}, missing
	case hopsAlone:
		return netip.Addr{}, tooShort
	}
	return addr, "" // all elements are trusted: the first one is the client
}
