package keyfuncs_test

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/sashlimit/sash/keyfuncs"
)

// randomAddr returns an address of any kind that has a name of its own: IPv4, mapped,
// IPv6, of NAT64, or of the link.
func randomAddr(rng *rand.Rand) netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], rng.Uint64())
	binary.BigEndian.PutUint64(b[8:], rng.Uint64())
	v4 := [4]byte(b[12:])
	if rng.IntN(3) == 0 {
		v4[0] = []byte{10, 0, 127, 192, 100, 240}[rng.IntN(6)] // often not public
	}
	copy(b[12:], v4[:])
	switch rng.IntN(5) {
	case 0:
		return netip.AddrFrom4(v4)
	case 1: // IPv4-mapped
		return netip.AddrFrom16(netip.AddrFrom4(v4).As16())
	case 2: // NAT64
		return netip.AddrFrom16([16]byte{1: 0x64, 2: 0xff, 3: 0x9b, 12: v4[0], 13: v4[1], 14: v4[2], 15: v4[3]})
	case 3: // a neighbour on the link
		b[0], b[1] = 0xfe, 0x80
		return netip.AddrFrom16(b).WithZone("eth0")
	}
	return netip.AddrFrom16(b)
}

// TestIPString: of any address, IPKey returns the key of a request from it.
func TestIPString(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 15))
	proxies := keyfuncs.TrustProxies(prefixes("198.51.100.0/24")...)
	prefixed := make([]keyfuncs.Func, 129) // by bits; the first has the default
	behind := make([]keyfuncs.Func, 129)
	prefixed[0], behind[0] = keyfuncs.IP(), keyfuncs.IP(proxies)
	for bits := 1; bits <= 128; bits++ {
		prefixed[bits] = keyfuncs.IP(keyfuncs.IPv6Prefix(bits))
		behind[bits] = keyfuncs.IP(keyfuncs.IPv6Prefix(bits), proxies)
	}
	for range 20_000 {
		addr, bits := randomAddr(rng), rng.IntN(129)
		direct := request(netip.AddrPortFrom(addr, 4711).String())
		if got, want := keyfuncs.IPKey(addr, 0), mustKey(t, keyfuncs.RemoteIP, direct); got != want {
			t.Fatalf("%v: %q, want the key of RemoteIP, %q", addr, got, want)
		}
		if got, want := keyfuncs.IPKey(addr, bits), mustKey(t, prefixed[bits], direct); got != want {
			t.Fatalf("%v, %d bits: %q, want the key of IP, %q", addr, bits, got, want)
		}
		if prefixes("198.51.100.0/24")[0].Contains(addr.Unmap()) {
			continue // a proxy
		}
		proxied := request("198.51.100.1:80", "X-Forwarded-For: "+addr.String())
		got, want := keyfuncs.IPKey(addr.WithZone(""), bits), mustKey(t, behind[bits], proxied)
		if got != want {
			t.Fatalf("%v, %d bits: %q, want the key behind a proxy, %q", addr, bits, got, want)
		}
	}
}

// TestIPStringOfNoClient: where no request has such a key, IPKey returns none.
func TestIPStringOfNoClient(t *testing.T) {
	for _, c := range []struct {
		addr netip.Addr
		bits int
	}{{netip.Addr{}, 0}, {netip.MustParseAddr("2001:db8::1"), -1}, {netip.MustParseAddr("192.0.2.1"), 129}} {
		if got := keyfuncs.IPKey(c.addr, c.bits); got != "" {
			t.Errorf("IPKey(%v, %d) = %q, want none", c.addr, c.bits, got)
		}
	}
}

// TestUserIDString: UserIDKey returns the key of a request by the user, or none where
// UserID returns none.
func TestUserIDString(t *testing.T) {
	for _, id := range []string{"42", " 42", "a|b", "\xff", ""} {
		f := keyfuncs.UserID(func(context.Context) (string, bool) { return id, true })
		want, _ := f(request("192.0.2.1:80"))
		if got := keyfuncs.UserIDKey(id); got != want {
			t.Errorf("UserIDKey(%q) = %q, want %q", id, got, want)
		}
	}
}

// TestHeaderString: HeaderKey returns the key of a request with the header, or none
// where Header returns none.
func TestHeaderString(t *testing.T) {
	for _, name := range []string{"X-Tenant", "x-tenant", "X-TENANT", "x_y!"} {
		for _, value := range []string{
			"acme", " acme\t", "a b", "A,b", "\xff", "", " ", strings.Repeat("a", 8<<10), strings.Repeat("a", 8<<10+1),
		} {
			r := &http.Request{Header: http.Header{http.CanonicalHeaderKey(name): {value}}}
			want, _ := keyfuncs.Header(name)(r)
			if got := keyfuncs.HeaderKey(name, value); got != want {
				t.Errorf("HeaderKey(%q, %.20q) = %.40q, want %.40q", name, value, got, want)
			}
		}
	}
	for _, name := range []string{"", "X Tenant", "host", "a:b"} {
		if got := keyfuncs.HeaderKey(name, "acme"); got != "" {
			t.Errorf("HeaderKey(%q, acme) = %q, want none", name, got)
		}
	}
}
