package keyfuncs

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// IP returns a function that names the client by its IP address behind reverse proxies or load balancers. The options
// say which proxies are trusted to report the client's address; no other peer is. The keys are those of [RemoteIP], and
// without options IP does the same as RemoteIP.
//
// X-Forwarded-For is a list to which each proxy appends the address of its peer, after any text of the client. So IP
// reads the list from its end, past the trusted proxies, to the first other address, the client. If all are trusted,
// the client is the first of the list. docs/proxies.md has the options for nginx, the clouds and the CDNs, and a check
// with curl.
//
// If a trusted proxy sends no header, or the entry that counts is not an IP address, IP does not go on to text that the
// client may have written. It names the client by the peer: all such requests share the count of their proxy, or have
// the key ip:unix. [OnUntrusted] is called for each.
//
// Entries may have a port. Zones in headers are ignored, since they belong to another host. IP reads the last 8 KiB and
// the last 100 entries of a header. The error matches [ErrNoKey] if the peer has no IP address. IP panics if an option
// is wrong or contradicts another one. If an option with one value is repeated, the last one counts.
func IP(options ...IPOption) Func { return newIPConfig("IP", options).key }

// Addr returns a function that returns the client's address as [IP] with the same options finds it, to exempt or block
// networks, and for logs:
//
//	addr, office := keyfuncs.Addr(), netip.MustParsePrefix("198.51.100.0/24")
//	nethttp.Skip(func(r *http.Request) bool {
//		a, err := addr(r)
//		return err == nil && office.Contains(a)
//	})
//
// IPv4-mapped IPv6 becomes IPv4, and an address of NAT64 stays as it is. The address of a peer may have a zone, and no
// prefix contains such an address: use a.WithZone(""). [IPv6Prefix] has no effect.
//
// The error matches [ErrNoKey] if IP names no client, and also if IP names the proxy because the header cannot be
// trusted, so that a list with the proxies exempts none of these requests. [OnUntrusted] is called for them too.
func Addr(options ...IPOption) func(*http.Request) (netip.Addr, error) {
	c := newIPConfig("Addr", options)
	return func(r *http.Request) (netip.Addr, error) {
		addr, err := c.address(r)
		if err != nil {
			addr = netip.Addr{} // that of the proxy
		}
		return addr, err
	}
}

// newIPConfig returns the configuration by the options of IP. It panics if an option is nil, with the caller's name, or
// if options contradict each other.
func newIPConfig(caller string, options []IPOption) *ipConfig {
	c := &ipConfig{bits: defaultIPv6Prefix}
	mustNotBeNil(caller, "option", options)
	for _, option := range options {
		option(c)
	}
	switch {
	case c.header != "" && c.hops > 0:
		panic("sash: FromHeader(" + c.header + ") and TrustHops contradict each other: " +
			"the header holds one address and no hops; " +
			"list the proxy's networks with TrustProxies instead of TrustHops")
	case c.header != "" && len(c.trusted) == 0 && !c.unix:
		panic("sash: FromHeader(" + c.header + ") needs TrustProxies, with the networks of the proxy " +
			"that sets the header: any other peer can forge it")
	}
	return c
}

// IPOption is an option of [IP] and [Addr].
type IPOption func(*ipConfig)

// TrustProxies trusts the proxies in these networks, and only them. A reported address in the networks is a proxy too;
// the first other address is the client. Prefixes may have IPv4-mapped form. Several TrustProxies add up.
// [PrivateRanges] helps if all proxies are on a network of your own.
//
// List no network with clients: a client with an address in the list is taken for a proxy, and chooses its name.
// TrustProxies panics without prefixes, on an invalid one, and on one with more than an eighth of all IPv4 or of all
// public IPv6 addresses, such as 0.0.0.0/0.
func TrustProxies(prefixes ...netip.Prefix) IPOption {
	prefixes = mustPrefixes(prefixes)
	return func(c *ipConfig) { c.trusted = c.trusted.with(prefixes) }
}

// TrustHops trusts the last n proxies, whatever their addresses: the peer is the first hop and wrote the last entry,
// and the client is the n-th entry from the end. TrustHops(1) is for one proxy in front of this server, TrustHops(2)
// for a load balancer behind a CDN. A header with fewer entries cannot be trusted.
//
// Use it only if clients can reach neither the server, nor any of the n proxies but the outermost, except through the
// proxy in front of it. If n is too large, clients choose their names. If n is too small, all clients share the name of
// a proxy.
//
// With [TrustProxies] both hold: each hop must be in the listed networks, and there are at most n hops. The client is
// the first address outside the networks or the n-th entry, whichever comes first; fewer entries are allowed. Use both
// if clients and proxies are in the same networks. IP panics if n is less than 1 or more than 100.
func TrustHops(n int) IPOption {
	return func(c *ipConfig) {
		if n < 1 || n > maxElements {
			panic(fmt.Sprintf("sash: TrustHops(%d): n is the number of proxies in front of this server, "+
				"from 1 to %d; if there is none, use RemoteIP", n, maxElements))
		}
		c.hops = n
	}
}

// FromHeader reads the client's address from a header that holds only this address, such as CF-Connecting-IP,
// True-Client-IP, Fly-Client-IP or X-Real-IP, and ignores all other headers. The header is trusted only from a peer in
// the networks of [TrustProxies] (or on a trusted unix socket). Make sure that the proxy replaces the header of the
// client: a proxy that does not know the header forwards a forged one. A header that comes twice or holds a list cannot
// be trusted.
//
// IP panics on an invalid name, on X-Forwarded-For and Forwarded, which are lists, and with [TrustHops].
func FromHeader(name string) IPOption {
	return func(c *ipConfig) {
		c.header = mustHeaderName("FromHeader", name)
		if c.header == xForwardedFor || c.header == "Forwarded" {
			panic("sash: FromHeader(" + c.header + "): this is a list: have the proxy write X-Forwarded-For, " +
				"which TrustProxies and TrustHops read, and leave FromHeader out")
		}
	}
}

// IPv6Prefix counts IPv6 clients by networks of the given bits instead of 64: 56 or 48 if clients have such networks,
// 128 for single addresses, which is right only on a network where each client has one address. The key has the prefix,
// ip:2001:db8:1::/48, so another value starts new counts. IP panics if bits is less than 1 or more than 128.
func IPv6Prefix(bits int) IPOption {
	return func(c *ipConfig) {
		if bits < 1 || bits > 128 {
			panic(fmt.Sprintf("sash: IPv6Prefix(%d): bits must be from 1 to 128; "+
				"64 is the default, and the usual network of a customer", bits))
		}
		c.bits = bits
	}
}

// OnUntrusted calls observe for each request of a trusted peer with a header that cannot be trusted. Count these
// requests and alert on them: either a proxy is not set up as in the options, or a client bypasses it. A peer that is
// not trusted is a client, whatever its headers, and is not reported.
//
// reason can be the label of a metric. It is "missing" (no header), "malformed" (the entry that counts is not an IP
// address), "too_short" (fewer entries than in [TrustHops]), "repeated" (the header of [FromHeader] comes twice, or
// holds a list) or "too_long" (the client is not in the last 100 entries and the last 8 KiB).
//
// observe is called before the function returns, by many goroutines at once. It must not change the request. Headers
// are text of the client, so quote them in a log.
func OnUntrusted(observe func(r *http.Request, reason string)) IPOption {
	return func(c *ipConfig) {
		if observe == nil {
			panic("sash: OnUntrusted(nil): give a func(r *http.Request, reason string), or leave OnUntrusted out")
		}
		c.onUntrusted = observe
	}
}

// TrustUnixSocket accepts requests over a unix socket, and trusts the process at its other end as a proxy, since only
// local processes can connect. It needs no [TrustProxies]; with it, the listed proxies behind the socket are trusted
// too. With [TrustHops] the process at the socket is the first hop. It trusts no TCP peer. Without this option, a
// request over a unix socket has no name.
//
// A process that may open the socket can write any name, so check the permissions of its file. An abstract socket has
// no permissions.
func TrustUnixSocket() IPOption {
	return func(c *ipConfig) { c.unix = true }
}

// ipConfig holds the options of IP. It does not change after construction.
type ipConfig struct {
	trusted     prefixSet // empty without TrustProxies
	hops        int       // 0 without TrustHops
	header      string    // canonical; empty without FromHeader
	bits        int
	onUntrusted func(*http.Request, string)
	unix        bool
}

// key is the Func that IP returns.
func (c *ipConfig) key(r *http.Request) (string, error) {
	addr, err := c.address(r)
	switch {
	case err != nil && err != errUntrusted:
		return "", err
	case !addr.IsValid():
		return "ip:unix", nil
	}
	return ipKey(addr, c.bits), nil
}

var errUntrusted error = noKeyError("a trusted proxy has sent no address of the client that can be trusted")

// address returns the address of the client. If the header of a trusted peer cannot be trusted, it calls onUntrusted
// and returns errUntrusted with the address of the peer, which is zero for a unix socket.
func (c *ipConfig) address(r *http.Request) (netip.Addr, error) {
	peer, isIP := parseNode(r.RemoteAddr)
	switch {
	case !isIP && !(c.unix && isUnixPeer(r)):
		return peer, noPeer(r.RemoteAddr)
	case isIP && !c.isTrusted(peer):
		return peer, nil
	}
	client, reason := c.client(r)
	if reason == "" {
		return client, nil
	}
	if c.onUntrusted != nil {
		c.onUntrusted(r, reason)
	}
	return peer, errUntrusted
}

// isTrusted reports whether the peer of a TCP connection is a trusted proxy.
func (c *ipConfig) isTrusted(peer netip.Addr) bool {
	return c.trusted.contains(peer) || len(c.trusted) == 0 && c.hops > 0
}

// isUnixPeer reports whether the request came over a unix socket. The server's local address comes first, because
// RemoteAddr may be empty for other reasons.
func isUnixPeer(r *http.Request) bool {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		return strings.HasPrefix(local.Network(), "unix")
	}
	return r.RemoteAddr == "" || r.RemoteAddr[0] == '@' || r.RemoteAddr[0] == '/'
}
