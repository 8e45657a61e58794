package keyfuncs

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// IP returns a function that names the client by its IP address where requests
// come through reverse proxies or load balancers. The proxies that the options name
// are believed about the client that they pass on, and no other peer is. The keys
// are the same as those of [RemoteIP]. Without options the function does what
// RemoteIP does.
//
// # Which proxies to believe
//
// X-Forwarded-For is a list to which each proxy appends the address that it was
// called from. What the client sent stands before, so the first entry is whatever
// the client likes, and code that takes it can be evaded by any client with curl.
// IP reads the list from its end. If the peer of the connection is a trusted proxy,
// the last entry is the address that this proxy saw. If this address is a trusted
// proxy in turn, the entry before it is the address that the second proxy saw, and
// so on. The first address that is not a trusted proxy is the client,
// and nothing before it is looked at. If all are trusted proxies, the client is
// the first of the list. Several header lines are one list.
//
// [TrustProxies] is the option to start with. [TrustHops] counts proxies that
// cannot be listed, [FromForwarded] and [FromHeader] read other headers, and
// [TrustUnixSocket] is for a proxy on the same host. No header is read that the
// options do not ask for.
//
// Before going live, send a request with "X-Forwarded-For: 192.0.2.1" through
// your proxies: the key must be your own address.
//
// # When the header cannot be believed
//
// If a trusted proxy sent no header, or the entry that counts is not an IP
// address (unknown, an obfuscated name, garbage, nothing), the walk ends there
// and does not go on to what the client may have written. The client is then
// named by the peer: all such requests together share the count of their proxy.
// [OnUntrusted] hears of each, since it means that the proxies are not set up
// as the options say.
//
// # Addresses
//
// Entries may have a port (192.0.2.1:52241, [2001:db8::1]:443). Addresses are
// named as by [RemoteIP]: IPv4-mapped IPv6 is IPv4, NAT64, 6to4 and Teredo are the
// IPv4 address that they embed, and other IPv6 is its /64, or see [IPv6Prefix].
// Which proxy is trusted is decided by the address itself, not by an embedded one.
// Zones in headers are ignored, being of another host.
//
// # Errors and cost
//
// The function returns an error that matches [ErrNoKey] if the peer has no IP
// address, and no other error. It is safe for concurrent use and, ordinarily,
// allocates the key and nothing else. Of a header it looks at the last 8 KiB and the
// last 100 entries at most, whatever its size; if the client is not there, the
// header cannot be believed ([HeaderTooLong]).
//
// IP panics if an option is wrong or contradicts another one; the text says
// what to write instead. The function that it returns never panics.
func IP(options ...IPOption) Func {
	return newIPConfig(options).key
}

// newIPConfig returns what the options of IP set. It panics as IP does.
func newIPConfig(options []IPOption) *ipConfig {
	c := &ipConfig{bits: defaultIPv6Prefix}
	for i, option := range options {
		if option == nil {
			panic(fmt.Sprintf("keyfuncs: IP: option %d of %d is nil", i+1, len(options)))
		}
		option(c)
	}
	c.mustBeSound()
	return c
}

// IPOption is an option of [IP].
type IPOption func(*ipConfig)

// TrustProxies has the proxies in these networks believed, and only them. An
// address that they report and that is in the same networks is a proxy too, and the
// first address that is not is the client. Prefixes may be given in IPv4-mapped
// form; given several times, they add up. [PrivateRanges] helps where all proxies
// are on a network of your own.
//
// List no network that clients come from: a client with an address in the list is
// taken for a proxy, and chooses its name. IP panics if there is no prefix, if
// one is not valid, and if they hold more than an eighth of all IPv4 or of all
// public IPv6 addresses together, above all 0.0.0.0/0 and ::/0.
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

// TrustHops has the last n proxies believed, whatever their addresses: the peer
// is the first hop and wrote the last entry, and the client is the n-th entry
// from the end. TrustHops(1) is for one proxy or load balancer in front of this
// server, TrustHops(2) for a load balancer behind a CDN. If the header has
// fewer entries than that, it cannot be believed.
//
// Use it only if no client can reach the server, nor any of the n proxies but the
// outermost, except through the proxy in front of it: a client that gets around the
// proxies is believed like a proxy. If n is too large, clients choose their names.
// If n is too small, all clients share the name of a proxy.
//
// With [TrustProxies] both hold: each hop must be in the listed networks, and
// no more than n are passed. The client is the first address that is not listed
// or the n-th entry, whichever comes first; fewer entries are fine then. That
// is the choice where clients and proxies are in the same networks.
//
// IP panics if n is less than 1 or more than 100.
func TrustHops(n int) IPOption {
	return func(c *ipConfig) {
		c.once("TrustHops", c.hops != 0)
		if n < 1 || n > maxElements {
			panic(fmt.Sprintf("keyfuncs: TrustHops(%d): n is the number of proxies in front of this server, "+
				"from 1 to %d; if there is none, use RemoteIP", n, maxElements))
		}
		c.hops = n
	}
}

// FromForwarded has the standard header Forwarded of RFC 7239 read, its
// parameter for, and X-Forwarded-For ignored. Use it only if your proxies
// append to Forwarded: one that does not know the header passes on what the
// client wrote.
//
// An element without for, or with a for that is unknown or an obfuscated name
// (_hidden), cannot be believed. Quoted strings are understood, and read from
// the end like everything else: a quote that a client opens and does not close
// stays in the client's part of the header.
//
// It needs [TrustProxies], [TrustHops] or [TrustUnixSocket].
func FromForwarded() IPOption {
	return func(c *ipConfig) { c.forwarded = true }
}

// FromHeader has the client's address read from a header that holds only this
// address, such as CF-Connecting-IP, True-Client-IP, Fly-Client-IP or X-Real-IP,
// and all other headers ignored. It is believed only from a peer that
// [TrustProxies] lists (or on a trusted unix socket), so list the networks of
// the proxy that sets the header, and make sure that the proxy replaces what the
// client sends: a proxy that knows nothing of the header passes a forged one on.
//
// A header that comes twice or holds a list cannot be believed.
//
// IP panics if the name cannot be that of a header, if it is X-Forwarded-For or
// Forwarded, which are lists and have options of their own, and together with
// [TrustHops] or [FromForwarded].
func FromHeader(name string) IPOption {
	return func(c *ipConfig) {
		c.once("FromHeader", c.header != "")
		c.header = mustHeaderName("FromHeader", name)
		switch c.header {
		case xForwardedFor:
			panic("keyfuncs: FromHeader(X-Forwarded-For): this is a list, which TrustProxies and TrustHops " +
				"read without FromHeader; leave FromHeader out")
		case forwarded:
			panic("keyfuncs: FromHeader(Forwarded): this is a list; use FromForwarded()")
		}
	}
}

// IPv6Prefix has IPv6 clients counted by networks of the given bits instead of 64:
// 56 or 48 where clients are known to hold such a network and to use it, 128 for
// single addresses, which is right only on a network where no client has more than
// one address. The key shows the prefix, ip:2001:db8:1::/48, so another value starts
// new counts.
//
// IP panics if bits is less than 1 or more than 128.
func IPv6Prefix(bits int) IPOption {
	return func(c *ipConfig) {
		c.once("IPv6Prefix", c.bitsGiven)
		if bits < 1 || bits > 128 {
			panic(fmt.Sprintf("keyfuncs: IPv6Prefix(%d): bits must be from 1 to 128; "+
				"64 is the default, and what one customer usually has", bits))
		}
		c.bits, c.bitsGiven = bits, true
	}
}

// Reason says why a header was not believed. It is one of the constants below,
// so it can be the label of a metric.
type Reason string

const (
	// HeaderMissing: the trusted peer did not send the header.
	HeaderMissing Reason = "missing"

	// HeaderMalformed: the entry that counts is not an IP address.
	HeaderMalformed Reason = "malformed"

	// HeaderTooShort: there are fewer entries than [TrustHops] asks for.
	HeaderTooShort Reason = "too_short"

	// HeaderRepeated: the header of [FromHeader] came twice, or holds a list.
	HeaderRepeated Reason = "repeated"

	// HeaderTooLong: the client is not among the last 100 entries, or not in the
	// last 8 KiB of the header; or the header of [FromHeader] has more than 8 KiB.
	HeaderTooLong Reason = "too_long"
)

// OnUntrusted has observe called for each request with a header that could not be
// believed although the peer is trusted, so that the client was named by the peer.
// Count these requests and alert on them: either a proxy is not set up as the
// options say, or a client gets around it. A peer that is not trusted is a
// client, whatever headers it sends, and is not reported.
//
// observe is called before the function returns, by many goroutines at once. It
// must not change the request; its headers are the client's text, so quote them
// in a log. IP panics if observe is nil.
func OnUntrusted(observe func(r *http.Request, reason Reason)) IPOption {
	return func(c *ipConfig) {
		c.once("OnUntrusted", c.onUntrusted != nil)
		if observe == nil {
			panic("keyfuncs: OnUntrusted: nil function; give a func(*http.Request, keyfuncs.Reason), " +
				"or leave OnUntrusted out")
		}
		c.onUntrusted = observe
	}
}

// TrustUnixSocket has requests that come over a unix socket accepted, and the
// process that sends them believed as a trusted proxy, since only local processes
// can connect: the last entry of X-Forwarded-For is the client, or what the other
// options make of the header. It needs no [TrustProxies], and with it the
// listed proxies behind the socket are passed too. With [TrustHops] the process
// at the socket is the first hop.
//
// A process that may open the socket can write any name, so check the permissions of
// its file; an abstract socket has none. If the header cannot be believed, the key
// is ip:unix, one for all.
//
// Without this option there is no name for a request over a unix socket. TCP
// peers are not trusted by it.
func TrustUnixSocket() IPOption {
	return func(c *ipConfig) { c.unix = true }
}

// ipConfig is what the options of IP set. It does not change after construction.
type ipConfig struct {
	proxiesGiven bool
	proxies      []netip.Prefix // as given
	trusted      prefixSet      // the proxies, ready for use
	hops         int            // 0: not given
	forwarded    bool
	header       string // canonical; empty: not given
	bits         int
	bitsGiven    bool
	onUntrusted  func(*http.Request, Reason)
	unix         bool
}

// once panics if an option that may be given once was given before.
func (c *ipConfig) once(option string, given bool) {
	if given {
		panic("keyfuncs: IP: " + option + " is given twice; give it once")
	}
}

// mustBeSound prepares the trusted networks. It panics if the options together make
// no sense.
func (c *ipConfig) mustBeSound() {
	if c.proxiesGiven {
		c.trusted = mustPrefixSet(c.proxies)
	}
	switch {
	case c.header != "" && c.forwarded:
		panic("keyfuncs: IP: FromHeader(" + c.header + ") and FromForwarded contradict each other; " +
			"give the one that your proxy sets")
	case c.header != "" && c.hops > 0:
		panic("keyfuncs: IP: FromHeader(" + c.header + ") and TrustHops contradict each other: " +
			"the header holds one address and no hops; " +
			"list the proxy's networks with TrustProxies instead of TrustHops")
	case c.header != "" && !c.proxiesGiven && !c.unix:
		panic("keyfuncs: IP: FromHeader(" + c.header + ") needs TrustProxies, with the networks of the proxy " +
			"that sets the header: from anyone else it is forged")
	case c.forwarded && !c.proxiesGiven && !c.unix && c.hops == 0:
		panic("keyfuncs: IP: FromForwarded needs TrustProxies, with the networks of your proxies, or TrustHops: " +
			"nobody is believed without")
	}
}

// key is the Func that IP returns.
func (c *ipConfig) key(r *http.Request) (string, error) {
	peer, isIP := parseNode(r.RemoteAddr)
	if !isIP && !(c.unix && isUnixPeer(r)) {
		return "", noPeer(r.RemoteAddr)
	}
	if client, ok := c.address(r, peer, isIP); ok {
		return ipKey(client, c.bits), nil
	}
	if !isIP {
		return "ip:unix", nil
	}
	return ipKey(peer, c.bits), nil
}

// address returns the address of the client of a request with the given peer, which is a
// trusted unix socket unless isIP. It reports false if the peer is trusted and its header
// cannot be believed, and tells onUntrusted.
func (c *ipConfig) address(r *http.Request, peer netip.Addr, isIP bool) (netip.Addr, bool) {
	if isIP && !c.trustsPeer(peer) {
		return peer, true
	}
	client, reason := c.client(r)
	if reason == "" {
		return client, true
	}
	if c.onUntrusted != nil {
		c.onUntrusted(r, reason)
	}
	return netip.Addr{}, false
}

// trustsPeer reports whether the peer of a TCP connection is a trusted proxy.
func (c *ipConfig) trustsPeer(peer netip.Addr) bool {
	if c.proxiesGiven {
		return c.trusted.contains(peer)
	}
	return c.hops > 0
}

// isUnixPeer reports whether the request came over a unix socket. It asks the
// server's local address first, because RemoteAddr may be empty for other reasons.
func isUnixPeer(r *http.Request) bool {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		return strings.HasPrefix(local.Network(), "unix")
	}
	return r.RemoteAddr == "" || r.RemoteAddr[0] == '@' || r.RemoteAddr[0] == '/'
}
