package guard

import (
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"github.com/sashlimit/sash/keyfuncs"
)

// proxyWatch detects a proxy that the key function does not trust, so that all clients are counted as one.
type proxyWatch struct {
	mu        sync.Mutex // guards the fields below; a request that would wait for it is not counted
	peer      netip.Addr // of the latest requests; zero for one that cannot be such a proxy
	seen      int        // consecutive requests from peer
	forwarded int        // the part of seen that names another client in a header
}

// proxyRequests is the number of consecutive requests of one peer that a verdict takes.
const proxyRequests = 20

// inspect records a request that is counted under key. It returns the address of an untrusted proxy after enough
// requests, and "" otherwise. Only private addresses count, since a public one may be a client.
func (p *proxyWatch) inspect(r *http.Request, key string) string {
	remote, _ := netip.ParseAddrPort(r.RemoteAddr)
	peer := remote.Addr().Unmap()
	if !peer.IsPrivate() && !peer.IsLoopback() && !peer.IsLinkLocalUnicast() || !isKeyOf(key, peer) {
		peer = netip.Addr{}
	}
	if !p.mu.TryLock() {
		return ""
	}
	defer p.mu.Unlock()
	if peer != p.peer || p.seen == proxyRequests {
		p.peer, p.seen, p.forwarded = peer, 0, 0
	}
	p.seen++
	if peer.IsValid() && isForwarded(r, peer) {
		p.forwarded++
	}
	if p.seen < proxyRequests || 2*p.forwarded <= p.seen {
		return ""
	}
	return peer.String()
}

// isForwarded reports whether the request, with peer as a trusted proxy, would have another client than peer. A client
// on the proxy's own host has the same address.
func isForwarded(r *http.Request, peer netip.Addr) bool {
	trusted := keyfuncs.TrustProxies(netip.PrefixFrom(peer.WithZone(""), peer.BitLen()))
	key, err := keyfuncs.IP(trusted)(r)
	return err == nil && !isKeyOf(key, peer)
}

// isKeyOf reports whether key is the key of an address, or joins it with others.
func isKeyOf(key string, addr netip.Addr) bool {
	ipKey := keyfuncs.IPKey(addr, 0)
	if key == ipKey || key == addr.String() {
		return true
	}
	joined, ok := strings.CutPrefix(key, "join:")
	return ok && strings.Contains("|"+joined+"|", "|"+ipKey+"|")
}
