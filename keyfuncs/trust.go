package keyfuncs

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
)

// PrivateRanges returns the networks that are not routed on the internet, for [TrustProxies] where the proxies are on
// a network of your own: RFC 1918, loopback, unique local addresses (RFC 4193) and link-local ones. A sender with
// such an address that can reach the proxy, a colleague on the office network for example, is taken for a proxy and
// can write any name: list the proxies' own networks where you can, or add [TrustHops]. The shared space of RFC 6598,
// 100.64.0.0/10, is left out, since those behind it are clients more often than proxies.
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

// prefixSet holds disjoint networks in the order of their addresses.
type prefixSet []netip.Prefix

// contains reports whether one of the networks holds addr, which must be unmapped. The zone of addr does not matter.
func (s prefixSet) contains(addr netip.Addr) bool {
	addr = addr.WithZone("") // Prefix.Contains is false for an address with a zone
	i, found := slices.BinarySearchFunc(s, addr, func(p netip.Prefix, a netip.Addr) int {
		return p.Addr().Compare(a)
	})
	return found || i > 0 && s[i-1].Contains(addr)
}

// trustAdvice ends the text of each panic of TrustProxies about its prefixes.
const trustAdvice = `: whoever is trusted chooses the client's name by writing a header; ` +
	`list the networks of your proxies, such as netip.MustParsePrefix("10.0.0.0/8"), or use PrivateRanges(); ` +
	`if they cannot be listed and nobody can reach this server but through them, use TrustHops(n)`

// mustPrefixSet returns the prefixes in the form in which addresses are compared. It panics if a prefix is not valid,
// or if they hold too many addresses.
func mustPrefixSet(prefixes []netip.Prefix) prefixSet {
	if len(prefixes) == 0 {
		panic("sash: TrustProxies: no prefixes" + trustAdvice + "; to trust no header, leave TrustProxies out")
	}
	set := make(prefixSet, 0, len(prefixes))
	for i, p := range prefixes {
		if !p.IsValid() {
			panic(fmt.Sprintf("sash: TrustProxies: prefix %d of %d is not valid "+
				"(a zero netip.Prefix, or more bits than the address has)%s", i+1, len(prefixes), trustAdvice))
		}
		if p.Addr().Is4In6() {
			// Peers are compared as IPv4, so the prefix must be IPv4 too.
			if p.Bits() < 96 {
				panic(fmt.Sprintf("sash: TrustProxies(%v) holds every IPv4 address, in IPv4-mapped form%s",
					p, trustAdvice))
			}
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		set = append(set, p.Masked())
	}
	set = disjoint(set)
	mustNotTrustEveryone(set)
	return set
}

// disjoint returns masked prefixes as a prefixSet, in the same memory.
func disjoint(set prefixSet) prefixSet {
	slices.SortFunc(set, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	// Two networks overlap only if one holds the other, and the larger one is first.
	n := 0
	for _, p := range set {
		if n == 0 || !set[n-1].Contains(p.Addr()) {
			set[n] = p
			n++
		}
	}
	return set[:n:n]
}

// mostTrusted is the largest part of all addresses that may be trusted as proxies: all networks of the largest clouds
// together are less. All prefixes are added up, so that two halves are refused like the whole.
const mostTrusted = 1.0 / 8

// mustNotTrustEveryone panics if the set holds so large a part of all addresses that clients must be among them.
func mustNotTrustEveryone(set prefixSet) {
	v6 := slices.IndexFunc(set, func(p netip.Prefix) bool { return p.Addr().Is6() })
	if v6 < 0 {
		v6 = len(set)
	}
	mustNotTrustMost(set[:v6], "IPv4", func(p netip.Prefix) float64 { return math.Ldexp(1, -p.Bits()) })
	mustNotTrustMost(set[v6:], "public IPv6", shareOfGlobal)
}

// mustNotTrustMost panics if the networks, all of one family, hold more than mostTrusted of the family's addresses.
// share returns the part that one network holds.
func mustNotTrustMost(set prefixSet, family string, share func(netip.Prefix) float64) {
	var sum float64
	for _, p := range set {
		sum += share(p)
	}
	if sum <= mostTrusted {
		return
	}
	var given strings.Builder
	for i, p := range set {
		if i == 8 {
			fmt.Fprintf(&given, ", and %d more", len(set)-i)
			break
		}
		if i > 0 {
			given.WriteString(", ")
		}
		given.WriteString(p.String())
	}
	panic(fmt.Sprintf("sash: TrustProxies(%s) trusts %.0f%% of all %s addresses, clients among them%s",
		&given, 100*sum, family, trustAdvice))
}

// globalUnicast holds all public IPv6 addresses. A server that trusts it trusts every client, though it is only an
// eighth of ::/0.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// shareOfGlobal returns the part of the public IPv6 addresses that p holds.
func shareOfGlobal(p netip.Prefix) float64 {
	switch {
	case p.Bits() <= globalUnicast.Bits():
		if p.Contains(globalUnicast.Addr()) {
			return 1
		}
		return 0
	case globalUnicast.Contains(p.Addr()):
		return math.Ldexp(1, globalUnicast.Bits()-p.Bits())
	}
	return 0
}
