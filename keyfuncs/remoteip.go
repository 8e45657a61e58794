package keyfuncs

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"unsafe"
)

// defaultIPv6Prefix is what one customer of a provider usually gets. Whoever
// counts single IPv6 addresses hands every client 2^64 names.
const defaultIPv6Prefix = 64

// RemoteIP is a key function: it names the client by the address at the other
// end of the connection, and reads no header at all. Nobody can forge it, so it
// is the right choice for a server that its clients reach directly.
//
// Behind a reverse proxy or load balancer it names the proxy, and all clients
// share one count: use [IP] with [TrustProxies] there.
//
// The key is ip:198.51.100.7 for IPv4 (also if written as IPv4-mapped IPv6,
// ::ffff:198.51.100.7) and the network ip:2001:db8:1:2::/64 for IPv6. A peer
// with a zone, which is a neighbour on the link, is ip:fe80::1%eth0. A
// RemoteAddr without a port is taken.
//
// The error matches [ErrNoKey] if RemoteAddr holds no IP address, as on a unix
// socket: [TrustUnixSocket] is for those. Middleware that rewrites
// Request.RemoteAddr from a header makes RemoteIP as forgeable as that header.
//
// RemoteIP allocates the key and nothing else.
func RemoteIP(r *http.Request) (string, error) {
	s := r.RemoteAddr
	if n := ipv4Len(s); n > 0 && (n == len(s) || s[n] == ':' && isPort(s[n+1:])) {
		return ipv4Key(s[:n]), nil // mostly; and there is one way to write IPv4
	}
	peer, ok := parseNode(s)
	if !ok {
		return "", noPeer(s)
	}
	return ipKey(peer, defaultIPv6Prefix), nil
}

// ipv4Len is the length of the IPv4 address that s begins with, before the end
// or a character that is none of an address; 0 without one. It is
// netip.ParseAddr for the commonest case, in one go with finding the port.
func ipv4Len(s string) int {
	dots, digits, n := 0, 0, 0
	i := 0
	for ; i < len(s); i++ {
		if c := s[i] - '0'; c <= 9 {
			if n = 10*n + int(c); n > 255 || digits > 0 && n < 10 { // the latter began with 0
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

// ipv4Key is "ip:" + s. That its room has one size saves an eighth of RemoteIP.
func ipv4Key(s string) string {
	const most = "ip:255.255.255.255"
	b := new([len(most)]byte)
	n := copy(b[:], most[:3])
	n += copy(b[n:], s)
	return unsafe.String(&b[0], n)
}

func noPeer(remoteAddr string) error {
	return noKeyError(fmt.Sprintf("the peer %.100q has no IP address; for a unix socket use keyfuncs.IP with TrustUnixSocket", remoteAddr))
}

// ipKey is the key of an unmapped address.
func ipKey(addr netip.Addr, bits int) string {
	var buf [64]byte
	b := append(buf[:0], "ip:"...)
	if addr.Is4() || addr.Zone() != "" {
		b = addr.AppendTo(b)
	} else {
		network, _ := addr.Prefix(bits) // bits are in range and the address is valid
		b = network.AppendTo(b)
	}
	return string(b)
}

// maxNode is longer than any address with zone and port.
const maxNode = 100

// parseNode reads an address with or without a port: 192.0.2.1, 192.0.2.1:80,
// 2001:db8::1, [2001:db8::1], [2001:db8::1]:80. IPv4-mapped IPv6 comes out as
// IPv4; a zone is kept.
func parseNode(s string) (netip.Addr, bool) {
	host, port, hasPort := splitPort(s)
	if hasPort && !isPort(port) {
		return netip.Addr{}, false
	}
	return parseHost(host)
}

// splitPort splits at the colon before the port, if there is a port. The host
// keeps its brackets.
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

// parseHost reads an address; brackets may stand around IPv6 only.
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
