package keyfuncs

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// IP returns a function that names the client by its IP address where requests come through reverse proxies or load
// balancers. The proxies that the options name are believed about the client that they pass on, and no other peer is.
// The keys are those of [RemoteIP]; without options IP does what RemoteIP does.
//
// X-Forwarded-For is a list to which each proxy appends the address that it was called from. What stands before is
// the client's text, so IP reads the list from its end, past the trusted proxies, to the first other address: the
// client. If all are trusted, it is the first of the list. docs/proxies.md has the options for nginx, the clouds and
// the CDNs, and a check with curl.
//
// If a trusted proxy sent no header, or the entry that counts is not an IP address, the walk ends there and does not
// go on to what the client may have written. The client is then named by the peer: all such requests share the count
// of their proxy, or have the key ip:unix. [OnUntrusted] is called for each.
//
// Entries may have a port. Zones in headers are ignored, being of another host. Of a header the last 8 KiB and the
// last 100 entries are looked at. The error matches [ErrNoKey]: the peer has no IP address. IP panics if an option is
// wrong or contradicts another one; of an option with one value, the last one counts.
func IP(options ...IPOption) Func { return newIPConfig("IP", options).key }

// Addr returns a function that finds the client's address by the same rules as [IP] with the same options: to exempt
// networks by nethttp.Skip, or to shut them out, and for logs:
//
//	addr, office := keyfuncs.Addr(), netip.MustParsePrefix("198.51.100.0/24")
//	nethttp.Skip(func(r *http.Request) bool {
//		a, err := addr(r)
//		return err == nil && office.Contains(a)
//	})
//
// IPv4-mapped IPv6 comes out as IPv4, and an address of NAT64 as it is. The address of a peer may have a zone, which
// no prefix contains: a.WithZone("") is without. [IPv6Prefix] changes nothing.
//
// The error matches [ErrNoKey] where IP names no client, and also where it names the proxy, because the header cannot
// be believed: so a list that holds the proxies exempts none of these requests. [OnUntrusted] is called for them too.
func Addr(options ...IPOption) func(*http.Request) (netip.Addr, error) {
	c := newIPConfig("Addr", options)
	return func(r *http.Request) (netip.Addr, error) {
		addr, err := c.address(r)
		if err != nil {
			return netip.Addr{}, err
		}
		return addr, nil
	}
}

// newIPConfig applies the options of IP. It panics as the caller does.
func newIPConfig(caller string, options []IPOption) *ipConfig {
	c := &ipConfig{bits: defaultIPv6Prefix}
	for i, option := range options {
		if option == nil {
			panic(fmt.Sprintf("sash: %s: option %d of %d is nil: leave it out", caller, i+1, len(options)))
		}
		option(c)
	}
	c.mustBeSound()
	return c
}

// IPOption is an option of [IP] and [Addr].
type IPOption func(*ipConfig)

// TrustProxies has the proxies in these networks believed, and only them. An address that they report and that is in
// the same networks is a proxy too, and the first address that is not is the client. Prefixes may be given in
// IPv4-mapped form; given several times, they add up. [PrivateRanges] helps where all proxies are on a network of
// your own.
//
// List no network that clients come from: a client with an address in the list is taken for a proxy, and chooses its
// name. IP panics if there is no prefix, if one is not valid, and if one holds more than an eighth of all IPv4 or of
// all public IPv6 addresses, 0.0.0.0/0 for example.
func TrustProxies(prefixes ...netip.Prefix) IPOption {
	prefixes = slices.Clone(prefixes)
	return func(c *ipConfig) {
		c.proxiesGiven = true
		c.proxies = append(c.proxies, prefixes...)
		if len(prefixes) == 0 {
			mustPrefixSet(nil)
		}
	}
}

// TrustHops has the last n proxies believed, whatever their addresses: the peer is the first hop and wrote the last
// entry, and the client is the n-th entry from the end. TrustHops(1) is for one proxy in front of this server,
// TrustHops(2) for a load balancer behind a CDN. If the header has fewer entries than that, it cannot be believed.
//
// Use it only if no client can reach the server, nor any of the n proxies but the outermost, except through the proxy
// in front of it. If n is too large, clients choose their names. If n is too small, all clients share the name of a
// proxy.
//
// With [TrustProxies] both hold: each hop must be in the listed networks, and no more than n are passed. The client
// is the first address that is not listed or the n-th entry, whichever comes first; fewer entries are fine then. That
// is the choice where clients and proxies are in the same networks. IP panics if n is less than 1 or more than 100.
func TrustHops(n int) IPOption {
	return func(c *ipConfig) {
		if n < 1 || n > maxElements {
			panic(fmt.Sprintf("sash: TrustHops(%d): n is the number of proxies in front of this server, "+
				"from 1 to %d; if there is none, use RemoteIP", n, maxElements))
		}
		c.hops = n
	}
}

// FromHeader has the client's address read from a header that holds only this address, such as CF-Connecting-IP,
// True-Client-IP, Fly-Client-IP or X-Real-IP, and all other headers ignored. It is believed only from a peer that
// [TrustProxies] lists (or on a trusted unix socket). Make sure that the proxy replaces what the client sends: a
// proxy that knows nothing of the header passes a forged one on. A header that comes twice or holds a list cannot be
// believed.
//
// IP panics if the name cannot be that of a header, if it is X-Forwarded-For or Forwarded, which are lists, and
// together with [TrustHops].
func FromHeader(name string) IPOption {
	return func(c *ipConfig) {
		c.header = mustHeaderName("FromHeader", name)
		if c.header == xForwardedFor || c.header == "Forwarded" {
			panic("sash: FromHeader(" + c.header + "): this is a list: have the proxy write X-Forwarded-For, " +
				"which TrustProxies and TrustHops read, and leave FromHeader out")
		}
	}
}

// IPv6Prefix has IPv6 clients counted by networks of the given bits instead of 64: 56 or 48 where clients are known
// to hold such a network and to use it, 128 for single addresses, which is right only on a network where no client
// has more than one address. The key shows the prefix, ip:2001:db8:1::/48, so another value starts new counts. IP
// panics if bits is less than 1 or more than 128.
func IPv6Prefix(bits int) IPOption {
	return func(c *ipConfig) {
		if bits < 1 || bits > 128 {
			panic(fmt.Sprintf("sash: IPv6Prefix(%d): bits must be from 1 to 128; "+
				"64 is the default, and what one customer usually has", bits))
		}
		c.bits = bits
	}
}

// OnUntrusted has observe called for each request with a header that could not be believed although the peer is
// trusted. Count these requests and alert on them: either a proxy is not set up as the options say, or a client gets
// around it. A peer that is not trusted is a client, whatever headers it sends, and is not reported.
//
// reason can be the label of a metric. It is "missing" (no header), "malformed" (the entry that counts is not an IP
// address), "too_short" (fewer entries than [TrustHops] asks for), "repeated" (the header of [FromHeader] came twice,
// or holds a list) or "too_long" (the client is not among the last 100 entries or in the last 8 KiB).
//
// observe is called before the function returns, by many goroutines at once. It must not change the request; its
// headers are the client's text, so quote them in a log.
func OnUntrusted(observe func(r *http.Request, reason string)) IPOption {
	return func(c *ipConfig) {
		if observe == nil {
			panic("sash: OnUntrusted(nil): give a func(r *http.Request, reason string), or leave OnUntrusted out")
		}
		c.onUntrusted = observe
	}
}

// TrustUnixSocket has requests that come over a unix socket accepted, and the process that sends them believed as a
// trusted proxy, since only local processes can connect. It needs no [TrustProxies], and with it the listed proxies
// behind the socket are passed too. With [TrustHops] the process at the socket is the first hop. TCP peers are not
// trusted by it. Without this option there is no name for a request over a unix socket.
//
// A process that may open the socket can write any name, so check the permissions of its file; an abstract socket has
// none.
func TrustUnixSocket() IPOption {
	return func(c *ipConfig) { c.unix = true }
}

// ipConfig holds the options of IP. It does not change after construction.
type ipConfig struct {
	proxiesGiven bool
	proxies      []netip.Prefix // as given
	trusted      prefixSet      // the proxies, ready for use
	hops         int            // 0: not given
	header       string         // canonical; empty: not given
	bits         int
	onUntrusted  func(*http.Request, string)
	unix         bool
}

// mustBeSound prepares the trusted networks. It panics if the options together make no sense.
func (c *ipConfig) mustBeSound() {
	if c.proxiesGiven {
		c.trusted = mustPrefixSet(c.proxies)
	}
	switch {
	case c.header != "" && c.hops > 0:
		panic("sash: FromHeader(" + c.header + ") and TrustHops contradict each other: " +
			"the header holds one address and no hops; " +
			"list the proxy's networks with TrustProxies instead of TrustHops")
	case c.header != "" && !c.proxiesGiven && !c.unix:
		panic("sash: FromHeader(" + c.header + ") needs TrustProxies, with the networks of the proxy " +
			"that sets the header: from anyone else it is forged")
	}
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

var errUntrusted error = noKeyError("a trusted proxy has sent no address of the client that can be believed")

// address returns the address of the client. If the header of a trusted peer cannot be believed, it tells onUntrusted
// and returns errUntrusted with the address of the peer, the zero one for a unix socket.
func (c *ipConfig) address(r *http.Request) (netip.Addr, error) {
	peer, isIP := parseNode(r.RemoteAddr)
	switch {
	case !isIP && !(c.unix && isUnixPeer(r)):
		return peer, noPeer(r.RemoteAddr)
	case isIP && !c.trustsPeer(peer):
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

// trustsPeer reports whether the peer of a TCP connection is a trusted proxy.
func (c *ipConfig) trustsPeer(peer netip.Addr) bool {
	if c.proxiesGiven {
		return c.trusted.contains(peer)
	}
	return c.hops > 0
}

// isUnixPeer reports whether the request came over a unix socket. It asks the server's local address first, because
// RemoteAddr may be empty for other reasons.
func isUnixPeer(r *http.Request) bool {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		return strings.HasPrefix(local.Network(), "unix")
	}
	return r.RemoteAddr == "" || r.RemoteAddr[0] == '@' || r.RemoteAddr[0] == '/'
}
