package keyfuncs

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// Networks is a list of networks, as [In] returns it. It is safe for concurrent use; the
// zero Networks holds no address.
type Networks struct{ set prefixSet }

// In returns a list of networks, to exempt clients from a limit for example:
//
//	office := keyfuncs.In("198.51.100.0/24", "2001:db8::/32")
//	nethttp.SkipKeys(office.HasKey)
//
// A prefix is a text such as "10.0.0.0/8" or a netip.Prefix. Bits of the address beyond
// the prefix do not matter. IPv4 in IPv4-mapped form is IPv4. In panics if there is no
// prefix, or if one is not valid: the text says which, and what to write instead. For text
// that comes while the program runs, use [netip.ParsePrefix] and give what it returns.
func In[P string | netip.Prefix](prefixes ...P) Networks {
	if len(prefixes) == 0 {
		panic("keyfuncs: In without networks: give at least one, such as \"10.0.0.0/8\"")
	}
	set := make(prefixSet, 0, len(prefixes))
	for i, given := range prefixes {
		var p netip.Prefix
		switch given := any(given).(type) {
		case netip.Prefix:
			p = given
		case string:
			p = parsePrefix(given)
		}
		if !p.IsValid() || p.Addr().Is4In6() && p.Bits() < 96 {
			panic(fmt.Sprintf("keyfuncs: In: prefix %d of %d, %.64q, is not a network: give an address, a slash and "+
				"a number of bits, such as \"10.0.0.0/8\" or \"2001:db8::/32\"; a single address is \"10.0.0.7/32\"",
				i+1, len(prefixes), fmt.Sprint(given)))
		}
		if p.Addr().Is4In6() {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		set = append(set, p.Masked())
	}
	return Networks{disjoint(set)}
}

// parsePrefix returns the zero Prefix for a text that is none.
func parsePrefix(text string) netip.Prefix {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// Has reports whether addr is in one of the networks. IPv4-mapped IPv6 is IPv4, the zone
// does not matter, and an embedded address is not looked at.
func (n Networks) Has(addr netip.Addr) bool { return n.set.contains(addr.Unmap()) }

// HasKey reports whether a key of [RemoteIP] or [IP] names a client in one of the networks,
// for nethttp.SkipKeys. A key of an IPv6 network, such as ip:2001:db8:1:2::/64, is in a
// network that holds all its addresses. No other key is.
//
// The key tells the client by the proxies that the key function trusts, so that no header
// of a client's own makes it another. But a proxy whose header cannot be believed gives its
// requests its own name, and an address that embeds an IPv4 address has the name of that.
// Where the list holds trusted proxies, [Networks.HasClient] is safer: it takes neither.
func (n Networks) HasKey(key string) bool {
	text, ok := strings.CutPrefix(key, "ip:")
	if !ok || len(text) > maxNode {
		return false
	}
	if addr, err := netip.ParseAddr(text); err == nil {
		return n.Has(addr)
	}
	p, err := netip.ParsePrefix(text)
	return err == nil && n.holds(p)
}

// holds reports whether one of the networks holds all addresses of p.
func (n Networks) holds(p netip.Prefix) bool {
	for _, network := range n.set {
		if network.Bits() <= p.Bits() && network.Contains(p.Addr()) {
			return true
		}
	}
	return false
}

// HasClient returns a function that reports whether the client of a request is in one of
// the networks, for nethttp.Skip. The client is the one that [IP] finds with the same
// options; without options it is the peer of the connection, and no header is read. Give it
// the options of the key function. IPv6Prefix changes nothing, and HasClient panics as IP
// does.
//
// A header that cannot be believed names no client: the function returns false then, even
// if the proxy is in one of the networks. An address of 6to4, or another
// one that embeds an IPv4 address, is in the networks of IPv6 alone.
func (n Networks) HasClient(options ...IPOption) func(*http.Request) bool {
	c := newIPConfig(options)
	return func(r *http.Request) bool {
		peer, isIP := parseNode(r.RemoteAddr)
		if !isIP && !(c.unix && isUnixPeer(r)) {
			return false
		}
		client, ok := c.address(r, peer, isIP)
		return ok && n.Has(client)
	}
}

// Everyone is a key function that gives all requests the same key, "everyone": for a limit
// that all clients share.
func Everyone(*http.Request) (string, error) { return "everyone", nil }
