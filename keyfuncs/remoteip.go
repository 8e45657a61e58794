package keyfuncs

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// defaultIPv6Prefix is the prefix that one customer of a provider usually gets. If
// single IPv6 addresses were counted, every client would have 2^64 names.
const defaultIPv6Prefix = 64

// RemoteIP is a key function: it names the client by the address at the other
// end of the connection, and reads no header at all. Nothing that a client sends
// changes it, so it is the right choice for a server that its clients reach
// directly.
//
// Behind a reverse proxy or load balancer it names the proxy, and all clients
// share one count: use [IP] with [TrustProxies] there.
//
// # The name of an address
//
//	ip:198.51.100.7            IPv4, also as IPv4-mapped IPv6 (::ffff:198.51.100.7)
//	ip:2001:db8:1:2::/64       IPv6: the network of 64 bits
//	ip:198.51.100.7            NAT64 64:ff9b::198.51.100.7, 6to4 2002:c633:6407::1, Teredo
//	ip:fe80::1%eth0            with a zone: a neighbour on the link
//
// NAT64 (64:ff9b::/96), 6to4 (2002::/16) and Teredo (2001::/32) embed the IPv4
// address of the client, which is the name: by /64, clients behind them would be
// one client, or choose their names. The embedded address counts only if it is
// public. Else 10.0.0.1 could be embedded to pass for a client inside, so all such
// addresses have one name: ip:64:ff9b::/64, ip:2001::/32, and for 6to4 the
// network of the site, ip:2002:a00:1::/48. In 64:ff9b:1::/48 and in networks of a
// provider's own for NAT64 the place of the IPv4 address is not known; these
// addresses are named by their /64 like others.
//
// A neighbour on the link chooses its link-local address (fe80::/10) at will, and
// with it its name: where neighbours are not trusted, do not listen on link-local
// addresses, or add a limit that all requests share. A client with a network larger
// than the 64 bits that are counted has a choice of names too; see [IPv6Prefix].
//
// A RemoteAddr without a port is taken.
//
// # Errors
//
// The error matches [ErrNoKey] if RemoteAddr holds no IP address, as on a unix
// socket: for a unix socket use [TrustUnixSocket]. Middleware that rewrites
// Request.RemoteAddr from a header makes RemoteIP as forgeable as that header.
//
// RemoteIP allocates the key and nothing else.
func RemoteIP(r *http.Request) (string, error) {
	s := r.RemoteAddr
	if n := ipv4Len(s); n > 0 && (n == len(s) || s[n] == ':' && isPort(s[n+1:])) {
		return "ip:" + s[:n], nil // the usual case, and IPv4 can be written in one way only
	}
	peer, ok := parseNode(s)
	if !ok {
		return "", noPeer(s)
	}
	return ipKey(peer, defaultIPv6Prefix), nil
}

// ipv4Len returns the length of the IPv4 address at the start of s, or 0 if there is
// none. The address ends with s, or before a character that is neither a digit nor a
// dot. ipv4Len replaces netip.ParseAddr in the commonest case, and finds the port in
// the same pass.
func ipv4Len(s string) int {
	dots, digits, n := 0, 0, 0
	i := 0
	for ; i < len(s); i++ {
		if c := s[i] - '0'; c <= 9 {
			if n = 10*n + int(c); n > 255 || digits > 0 && n < 10 { // a leading 0
				return 0
			}
			digits++
		} else if s[i] == '.' && digits > 0 {
			dots, digits, n = dots+1, 0, 0
		} else {
			break
		}
	}
	if dots != 3 || digits == 0 {
		return 0
	}
	return i
}

// noPeer returns the error for a peer without an IP address.
func noPeer(remoteAddr string) error {
	return noKeyError(fmt.Sprintf("the peer %.100q has no IP address; "+
		"for a unix socket use keyfuncs.IP with TrustUnixSocket", remoteAddr))
}

// IPString returns the key under which [RemoteIP] and [IP] count the client with an
// address, for a Reset of its count or to look it up. bits is that of [IPv6Prefix]; 0
// stands for 64, which RemoteIP takes, and IP without that option. All addresses of an
// IPv6 network have one key, and an address that embeds a public IPv4 address has the
// key of that; see RemoteIP.
//
// A zone is part of the key, as it is of a peer's. IP ignores the zones in headers: give
// addr.WithZone("") for a client behind a proxy.
//
// IPString returns "" if there is no such key: for the zero Addr, and for bits below 0 or
// above 128.
func IPString(addr netip.Addr, bits int) string {
	if bits == 0 {
		bits = defaultIPv6Prefix
	}
	if !addr.IsValid() || bits < 1 || bits > 128 {
		return ""
	}
	return ipKey(addr.Unmap(), bits)
}

// ipKey returns the key of an unmapped address. An IPv6 address without a zone is
// named by the IPv4 address that it embeds, or by its network of the given bits, or
// of fewer bits if its client can choose some of them.
func ipKey(addr netip.Addr, bits int) string {
	var buf [64]byte
	b := append(buf[:0], "ip:"...)
	if addr.Is4() || addr.Zone() != "" {
		return string(addr.AppendTo(b))
	}
	ipv4, most := embedded(addr)
	if ipv4.IsValid() {
		return string(ipv4.AppendTo(b))
	}
	network, _ := addr.Prefix(min(bits, most)) // the bits are in range and the address is valid
	return string(network.AppendTo(b))
}

// maxNode is a length in bytes that no address with zone and port exceeds.
const maxNode = 100

// parseNode parses an address with or without a port: 192.0.2.1, 192.0.2.1:80,
// 2001:db8::1, [2001:db8::1], [2001:db8::1]:80. IPv4-mapped IPv6 comes out as
// IPv4; a zone is kept.
func parseNode(s string) (netip.Addr, bool) {
	host, port, hasPort := splitPort(s)
	if hasPort && !isPort(port) {
		return netip.Addr{}, false
	}
	return parseHost(host)
}

// splitPort splits s at the colon before the port, and reports whether there is a
// port. The host keeps its brackets.
func splitPort(s string) (host, port string, hasPort bool) {
	i := strings.LastIndexByte(s, ':')
	switch {
	case i < 0:
		return s, "", false
	case s[0] == '[': // "[::1]:80" or "[::1]"
		if s[i-1] != ']' {
			return s, "", false
		}
	case strings.IndexByte(s, ':') != i: // IPv6 without brackets
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// parseHost parses an address without a port. Only IPv6 may stand in brackets.
func parseHost(s string) (netip.Addr, bool) {
	if len(s) == 0 || len(s) > maxNode {
		return netip.Addr{}, false
	}
	bracketed := s[0] == '['
	if bracketed {
		if s[len(s)-1] != ']' {
			return netip.Addr{}, false
		}
		s = s[1 : len(s)-1]
	}
	addr, err := netip.ParseAddr(s)
	if err != nil || bracketed && addr.Is4() {
		return netip.Addr{}, false
	}
	return addr.Unmap(), true
}

// isPort reports whether s is a decimal number up to 65535 of at most five digits.
func isPort(s string) bool {
	if len(s) == 0 || len(s) > 5 {
		return false
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
		n = 10*n + int(c-'0')
	}
	return n <= 65535
}
