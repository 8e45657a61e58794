package guard

import (
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"github.com/sashlimit/sash/keyfuncs"
)

// proxyWatch looks for a proxy that the key function does not believe: then all clients
// are counted as one.
type proxyWatch struct {
	mu        sync.Mutex // guards the fields below; no request waits for it
	peer      netip.Addr // of the last requests; zero if it does not matter
	seen      int        // requests from peer in a row
	forwarded int        // of these, the ones that came through a proxy
}

// proxyRequests is the number of requests in a row that must come from one peer.
const proxyRequests = 20

// look looks at a request that is counted under key. It returns the address of a proxy that is not believed, once it
// is certain, and "" otherwise. No client on the internet has the private address of a proxy.
func (p *proxyWatch) look(r *http.Request, key string) string {
	remote, _ := netip.ParseAddrPort(r.RemoteAddr)
	peer := remote.Addr().Unmap()
	if !peer.IsPrivate() && !peer.IsLoopback() && !peer.IsLinkLocalUnicast() || !namedBy(key, peer) {
		peer = netip.Addr{}
	}
	if !p.mu.TryLock() {
		return ""
	}
	defer p.mu.Unlock()
	if peer != p.peer {
		p.peer, p.seen, p.forwarded = peer, 0, 0
	}
	p.seen++
	if peer.IsValid() && namesOther(r, peer) {
		p.forwarded++
	}
	if p.seen < proxyRequests {
		return ""
	}
	most := 2*p.forwarded > p.seen
	p.seen, p.forwarded = 0, 0
	if !most {
		return ""
	}
	return peer.String()
}

// namesOther reports whether peer, if it were believed, would name another client than
// itself. A client on the proxy's own host has the same address.
func namesOther(r *http.Request, peer netip.Addr) bool {
	trusted := keyfuncs.TrustProxies(netip.PrefixFrom(peer.WithZone(""), peer.BitLen()))
	name, err := keyfuncs.IP(trusted)(r)
	return err == nil && !namedBy(name, peer)
}

// namedBy reports whether key is the name of an address, or is joined of it and others.
func namedBy(key string, addr netip.Addr) bool {
	name := keyfuncs.IPKey(addr, 0)
	if key == name || key == addr.String() {
		return true
	}
	joined, ok := strings.CutPrefix(key, "join:")
	return ok && strings.Contains("|"+joined+"|", "|"+name+"|")
}
