package keyfuncs

import (
	"fmt"
	"net/netip"
	"slices"
)

// PrivateRanges returns the networks that are not routed on the internet: RFC 1918, loopback, unique local addresses
// (RFC 4193) and link-local ones. It is for [TrustProxies] if the proxies are on a network of your own. A client with
// such an address that can reach the proxy, such as a colleague on the office network, is taken for a proxy and can
// write any name: list the networks of the proxies alone if you can, or add [TrustHops]. It does not have the shared
// space of RFC 6598, 100.64.0.0/10, which has clients more often than proxies.
func PrivateRanges() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"),
		netip.MustParsePrefix("172.16.0.0/12"),
		netip.MustParsePrefix("192.168.0.0/16"),
		netip.MustParsePrefix("127.0.0.0/8"),
		netip.MustParsePrefix("169.254.0.0/16"),
		netip.MustParsePrefix("::1/128"),
		netip.MustParsePrefix("fc00::/7"),
		netip.MustParsePrefix("fe80::/10"),
	}
}

// prefixSet is a set of disjoint networks in the order of their addresses.
type prefixSet []netip.Prefix

// contains reports whether one of the networks contains addr, which must be unmapped. A zone of addr has no effect.
func (s prefixSet) contains(addr netip.Addr) bool {
	addr = addr.WithZone("") // Prefix.Contains is false for an address with a zone
	i, found := slices.BinarySearchFunc(s, addr, func(p netip.Prefix, a netip.Addr) int {
		return p.Addr().Compare(a)
	})
	return found || i > 0 && s[i-1].Contains(addr)
}

// trustAdvice is the end of each panic of TrustProxies.
const trustAdvice = `: a trusted peer chooses the client's name by a header; ` +
	`list the networks of your proxies, such as netip.MustParsePrefix("10.0.0.0/8"), or use PrivateRanges(); ` +
	`if they cannot be listed and clients cannot reach this server except through them, use TrustHops(n)`

// mustPrefixes returns the prefixes masked, with IPv4 unmapped. It panics if there is none, or one is invalid or larger
// than minBits4 or minBits6 allow.
func mustPrefixes(prefixes []netip.Prefix) []netip.Prefix {
	if len(prefixes) == 0 {
		panic("sash: TrustProxies: no prefixes" + trustAdvice + "; to trust no header, leave TrustProxies out")
	}
	masked := make([]netip.Prefix, 0, len(prefixes))
	for i, p := range prefixes {
		if !p.IsValid() {
			panic(fmt.Sprintf("sash: TrustProxies: prefix %d of %d is not valid "+
				"(a zero netip.Prefix, or more bits than the address has)%s", i+1, len(prefixes), trustAdvice))
		}
		if p.Addr().Is4In6() && p.Bits() >= 96 { // peers are compared as IPv4
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		p = p.Masked()
		if p.Addr().Is4() && p.Bits() < minBits4 || p.Addr().Is6() && p.Bits() < minBits6 || p.Contains(mapped) {
			panic(fmt.Sprintf("sash: TrustProxies(%v) trusts so large a part of all addresses "+
				"that clients are among them%s", p, trustAdvice))
		}
		masked = append(masked, p)
	}
	return masked
}

// Minimum prefix lengths of trusted networks: an eighth of IPv4, and an eighth of the public part of IPv6, 2000::/3.
// The networks of the largest clouds are smaller.
const minBits4, minBits6 = 3, 6

// mapped is the first IPv4 address in IPv4-mapped form.
var mapped = netip.MustParseAddr("::ffff:0.0.0.0")

// with returns the set with further masked prefixes.
func (s prefixSet) with(prefixes []netip.Prefix) (set prefixSet) {
	all := slices.Concat(s, prefixes)
	slices.SortFunc(all, netip.Prefix.Compare)
	for _, p := range all { // networks that overlap contain one another, and the larger one sorts first
		if n := len(set); n == 0 || !set[n-1].Contains(p.Addr()) {
			set = append(set, p)
		}
	}
	return set
}
