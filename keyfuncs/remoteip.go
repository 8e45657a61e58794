package keyfuncs

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// defaultIPv6Prefix is the usual prefix length of a provider's customer. By single addresses, a client would have 2^64
// names.
const defaultIPv6Prefix = 64

// RemoteIP is a key function that names the client by the address at the other end of the connection. It reads no
// header, so a client cannot change its name: it is right for a server that its clients reach directly. Behind a
// reverse proxy or load balancer it names the proxy, and all clients share one count: use [IP] there.
//
//	ip:198.51.100.7            IPv4, also as IPv4-mapped IPv6 (::ffff:198.51.100.7)
//	ip:2001:db8:1:2::/64       IPv6: the network of 64 bits, all of one client
//	ip:198.51.100.7            NAT64, 64:ff9b::198.51.100.7
//	ip:fe80::1%eth0            with a zone: a neighbour on the link
//
// By /64, all clients of NAT64 (64:ff9b::/96) would be one, so the embedded IPv4 address counts if it is public.
// Others, such as 10.0.0.1, could imitate an internal client: all of them have the name ip:64:ff9b::/64.
//
// A neighbour on the link chooses its link-local address (fe80::/10), and so its name: if neighbours are not trusted,
// do not listen on link-local addresses. A client with a network larger than 64 bits has a choice of names too; see
// [IPv6Prefix].
//
// The error matches [ErrNoKey] if RemoteAddr has no IP address, as on a unix socket: for that use [TrustUnixSocket]. A
// connection in memory, such as net.Pipe or bufconn of gRPC, has none either: name its clients by something else, or by
// [AllClients]. Middleware that sets Request.RemoteAddr from a header makes RemoteIP as easy to forge as that header.
func RemoteIP(r *http.Request) (string, error) {
	peer, ok := parseNode(r.RemoteAddr)
	if !ok {
		return "", noPeer(r.RemoteAddr)
	}
	return ipKey(peer, defaultIPv6Prefix), nil
}

// noPeer returns the error for a peer without an IP address.
func noPeer(remoteAddr string) error {
	return noKeyError(fmt.Sprintf("the peer %.100q has no IP address; "+
		"for a unix socket use keyfuncs.IP with TrustUnixSocket, and in memory a key that is no address", remoteAddr))
}

// IPKey returns the key under which [RemoteIP] and [IP] count the client with an address, for Reset and Usage. bits is
// that of [IPv6Prefix], or 0 for the default of 64.
//
// A zone is part of the key. IP ignores the zones in headers: give addr.WithZone("") for a client behind a proxy. IPKey
// returns "" for the zero Addr, and for bits below 0 or above 128.
func IPKey(addr netip.Addr, bits int) string {
	if bits == 0 {
		bits = defaultIPv6Prefix
	}
	if !addr.IsValid() || bits < 1 || bits > 128 {
		return ""
	}
	return ipKey(addr.Unmap(), bits)
}

// nat64 is the network whose addresses end with the IPv4 address of a client (RFC 6052). In other such networks its
// place depends on a prefix length that the address does not have.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// ipKey returns the key of an unmapped address: an IPv6 address without a zone by its network of the given bits, one of
// NAT64 by a public IPv4 address in it, or by no bits that the client can choose.
func ipKey(addr netip.Addr, bits int) string {
	var buf [64]byte
	b := append(buf[:0], "ip:"...)
	if addr.Is4() || addr.Zone() != "" {
		return string(addr.AppendTo(b))
	}
	if nat64.Contains(addr) {
		b16 := addr.As16()
		if ipv4 := netip.AddrFrom4([4]byte(b16[12:])); isPublic(ipv4) {
			return string(ipv4.AppendTo(b))
		}
		bits = min(bits, nat64.Bits())
	}
	network, _ := addr.Prefix(bits) // the bits are in range and the address is valid
	return string(network.AppendTo(b))
}

// specialPrefixes are networks of IPv4 that are not public and that netip does not know. Networks for documentation,
// such as 192.0.2.0/24, have no clients.
var specialPrefixes = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),     // this network, RFC 791
	netip.MustParsePrefix("100.64.0.0/10"), // shared by the customers of a carrier, RFC 6598
	netip.MustParsePrefix("192.0.0.0/24"),  // protocols, RFC 6890
	netip.MustParsePrefix("198.18.0.0/15"), // benchmarks, RFC 2544
	netip.MustParsePrefix("240.0.0.0/4"),   // reserved, RFC 1112
}

// isPublic reports whether an IPv4 address can be that of a client on the internet. Others belong to internal clients,
// which an embedded address must not imitate.
func isPublic(ipv4 netip.Addr) bool {
	contains := func(network netip.Prefix) bool { return network.Contains(ipv4) }
	return ipv4.IsGlobalUnicast() && !ipv4.IsPrivate() && !slices.ContainsFunc(specialPrefixes, contains)
}

// maxNode is the maximum length in bytes of an address with zone and port.
const maxNode = 100

// parseNode parses an address with or without a port: 192.0.2.1, 192.0.2.1:80, 2001:db8::1, [2001:db8::1],
// [2001:db8::1]:80. IPv4-mapped IPv6 becomes IPv4; a zone stays.
func parseNode(s string) (netip.Addr, bool) {
	hasBrackets := strings.HasPrefix(s, "[")
	switch {
	case len(s) > maxNode:
		return netip.Addr{}, false
	case strings.Count(s, ":") == 1, hasBrackets && !strings.HasSuffix(s, "]"): // a port
		node, err := netip.ParseAddrPort(s)
		return node.Addr().Unmap(), err == nil
	case hasBrackets:
		s = s[1 : len(s)-1]
	}
	addr, err := netip.ParseAddr(s)
	return addr.Unmap(), err == nil && !(hasBrackets && addr.Is4())
}
