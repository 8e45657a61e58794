package keyfuncs

import (
	"encoding/binary"
	"net/netip"
)

// embedded returns the IPv4 address of the client inside an IPv6 address. If there
// is none, or none that is public, ipv4 is not valid, and bits is the length of the
// longest prefix of addr that its client cannot choose.
//
// Counted by /64, the clients of NAT64 or Teredo would be one client, and a site
// of 6to4 would have 65,536 names. A network of a provider's own for NAT64, and
// 64:ff9b:1::/48 for local use (RFC 8215), are not taken apart: the place of the
// IPv4 address depends on a length that the address does not tell.
func embedded(addr netip.Addr) (ipv4 netip.Addr, bits int) {
	b := addr.As16()
	switch network := binary.BigEndian.Uint32(b[:4]); {
	case network>>16 == 0x2002: // 6to4, 2002::/16, RFC 3056
		ipv4, bits = netip.AddrFrom4([4]byte(b[2:6])), 48
	case network == 0x2001_0000: // Teredo, 2001::/32, RFC 4380: inverted, behind a server and a port
		ipv4, bits = netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}), 32
	case network == 0x0064_ff9b && [8]byte(b[4:12]) == [8]byte{}: // NAT64, 64:ff9b::/96, RFC 6052
		ipv4, bits = netip.AddrFrom4([4]byte(b[12:16])), 96
	default:
		return netip.Addr{}, 128
	}
	if !isPublic(ipv4) {
		return netip.Addr{}, bits
	}
	return ipv4, bits
}

// special holds the networks of IPv4 that are not public, besides the ones that
// netip knows. The networks for documentation, such as 192.0.2.0/24, are left out,
// since they have no clients.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),     // this network, RFC 791
	netip.MustParsePrefix("100.64.0.0/10"), // shared by the customers of a carrier, RFC 6598
	netip.MustParsePrefix("192.0.0.0/24"),  // protocols, RFC 6890
	netip.MustParsePrefix("198.18.0.0/15"), // benchmarks, RFC 2544
	netip.MustParsePrefix("240.0.0.0/4"),   // reserved, RFC 1112
}

// isPublic reports whether an IPv4 address can be that of a client on the
// internet. Other addresses belong to clients inside, and embedding one must not
// pass for such a client.
func isPublic(ipv4 netip.Addr) bool {
	if !ipv4.IsGlobalUnicast() || ipv4.IsPrivate() {
		return false
	}
	for _, network := range special {
		if network.Contains(ipv4) {
			return false
		}
	}
	return true
}
