package keyfuncs_test

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/sashlimit/sash/keyfuncs"
)

var peers = []struct{ peer, want string }{
	{"198.51.100.7:4711", "ip:198.51.100.7"},
	{"198.51.100.7", "ip:198.51.100.7"},
	{"198.51.100.7:0", "ip:198.51.100.7"},
	{"[2001:db8:1:2:3:4:5:6]:4711", "ip:2001:db8:1:2::/64"},
	{"[2001:db8:1:2:ffff::1]", "ip:2001:db8:1:2::/64"},
	{"2001:db8:1:2::1", "ip:2001:db8:1:2::/64"},
	{"2001:DB8:1:3::1", "ip:2001:db8:1:3::/64"},
	{"[2001:db8::1]:1", "ip:2001:db8::/64"},
	{"[::ffff:198.51.100.7]:4711", "ip:198.51.100.7"},
	{"::ffff:c633:6407", "ip:198.51.100.7"},
	{"[fe80::1%eth0]:4711", "ip:fe80::1%eth0"},
	{"[fe80::2%eth0]:4711", "ip:fe80::2%eth0"},
	{"fe80::1%eth1", "ip:fe80::1%eth1"},
	{"[fe80::1]:4711", "ip:fe80::/64"},
	{"[::1]:4711", "ip:::/64"},

	// NAT64: the IPv4 client, if it is a public one.
	{"[64:ff9b::198.51.100.7]:4711", "ip:198.51.100.7"},
	{"[64:ff9b::c633:6408]:4711", "ip:198.51.100.8"},
	{"[64:ff9b::10.0.0.1]:4711", "ip:64:ff9b::/64"},
	{"[64:ff9b::127.0.0.1]:4711", "ip:64:ff9b::/64"},
	{"[64:ff9b::100.64.0.1]:4711", "ip:64:ff9b::/64"},
	{"[64:ff9b::1:198.51.100.7]:4711", "ip:64:ff9b::/64"},   // beyond the /96
	{"[64:ff9b:1::198.51.100.7]:4711", "ip:64:ff9b:1::/64"}, // local use: the place is not known
	{"[64:ff9b::198.51.100.7%eth0]:1", "ip:64:ff9b::c633:6407%eth0"},

	// 6to4: the site, which has 65,536 networks of 64 bits.
	{"[2002:c633:6407::1]:4711", "ip:198.51.100.7"},
	{"[2002:c633:6407:ffff::1]:4711", "ip:198.51.100.7"},
	{"[2002:a00:1:7::1]:4711", "ip:2002:a00:1::/48"},
	{"[2002:c0a8:101:7::1]:4711", "ip:2002:c0a8:101::/48"},
	{"[2002:e000:1::1]:4711", "ip:2002:e000:1::/48"},
	{"[2002:ffff:ffff::1]:4711", "ip:2002:ffff:ffff::/48"},
	{"[2003:c633:6407::1]:4711", "ip:2003:c633:6407::/64"},

	// Teredo: server, flags and port are the client's choice.
	{"[2001::c0a8:101:fefe:39cc:9bf8]:4711", "ip:198.51.100.7"},
	{"[2001:0:4136:e378:8000:63bf:39cc:9bf8]:4711", "ip:198.51.100.7"},
	{"[2001:0:4136:e378:8000:63bf:f5ff:fffe]:4711", "ip:2001::/32"}, // 10.0.0.1
	{"[2001:0:4136:e378::ffff:ffff]:4711", "ip:2001::/32"},          // 0.0.0.0
	{"[2001:1:4136:e378::39cc:9bf8]:4711", "ip:2001:1:4136:e378::/64"},
}

var notPeers = []string{
	"", "@", "@abstract", "/run/app.sock", "unknown", "pipe", "localhost:80",
	":80", "[]:80", "[", "]", "[]", ":", "::1]", "[::1", "[198.51.100.7]:80",
	"198.51.100.7:", "198.51.100.7:http", "198.51.100.7:65536", "198.51.100.7:000080", "198.51.100.7:-1",
	"198.51.100.07:80", "198.51.100", "198.51.100.7.1", "0x7f.1", "2130706433", " 198.51.100.7",
	"[2001:db8::1]443", "[2001:db8::1]:", "2001:db8:1:2:3:4:5:6:443", "fe80::1%",
	"fe80::1%" + strings.Repeat("z", 200),
}

func TestRemoteIP(t *testing.T) {
	for _, test := range peers {
		if got := mustKey(t, keyfuncs.RemoteIP, request(test.peer)); got != test.want {
			t.Errorf("%s: %s, want %s", test.peer, got, test.want)
		}
	}
}

// TestRemoteIPv4 holds what RemoteIP reads by itself against netip.
func TestRemoteIPv4(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	some := func(b []byte, alphabet string, n int) []byte {
		for range n {
			b = append(b, alphabet[rng.IntN(len(alphabet))])
		}
		return b
	}
	named := 0
	for range 300_000 {
		var b []byte
		for i := range 3 + rng.IntN(10)/4 {
			if i > 0 {
				b = append(b, '.')
			}
			b = some(b, "0122559", rng.IntN(12)/3)
		}
		if rng.IntN(8) == 0 {
			b = some(b, "0.:%/[]a ", 1)
		}
		host := string(b)
		peer := host
		if rng.IntN(2) == 0 {
			peer += ":80"
		}
		addr, err := netip.ParseAddr(host)
		key, keyErr := keyfuncs.RemoteIP(request(peer))
		if (err == nil && addr.Is4()) != (keyErr == nil) || keyErr == nil && key != "ip:"+host {
			t.Fatalf("%q: %q, %v; netip says %v, %v", peer, key, keyErr, addr, err)
		}
		if keyErr == nil {
			named++
		}
	}
	if named < 10_000 {
		t.Errorf("only %d of the peers had an address", named)
	}
}

func TestRemoteIPNeedsAnAddress(t *testing.T) {
	for _, peer := range notPeers {
		err := wantNoKey(t, keyfuncs.RemoteIP, request(peer))
		if !strings.Contains(err.Error(), "TrustUnixSocket") {
			t.Errorf("%q: the error does not say what to do: %v", peer, err)
		}
	}
}

func TestRemoteIPReadsNoHeader(t *testing.T) {
	r := request("198.51.100.7:4711", "X-Forwarded-For: 1.1.1.1", "Forwarded: for=1.1.1.1", "X-Real-IP: 1.1.1.1",
		"True-Client-IP: 1.1.1.1", "CF-Connecting-IP: 1.1.1.1", "X-Client-IP: 1.1.1.1")
	if got := mustKey(t, keyfuncs.RemoteIP, r); got != "ip:198.51.100.7" {
		t.Error(got)
	}
}

// Without options, IP is RemoteIP, and with IPv6Prefix alone it differs only in
// that.
func TestIPWithoutOptions(t *testing.T) {
	ip := keyfuncs.IP()
	for _, test := range peers {
		r := request(test.peer, "X-Forwarded-For: 1.1.1.1", "Forwarded: for=1.1.1.1")
		if got := mustKey(t, ip, r); got != test.want {
			t.Errorf("%s: %s, want %s", test.peer, got, test.want)
		}
	}
	for _, peer := range notPeers {
		_, want := keyfuncs.RemoteIP(request(peer))
		if err := wantNoKey(t, ip, request(peer)); err.Error() != want.Error() {
			t.Errorf("%q: %v, RemoteIP says %v", peer, err, want)
		}
	}
}

func TestRemoteIPAllocations(t *testing.T) {
	for _, peer := range []string{"198.51.100.7:4711", "[2001:db8:1:2:3:4:5:6]:4711", "[::ffff:198.51.100.7]:4711",
		"[2002:c633:6407::1]:4711", "[64:ff9b::10.0.0.1]:4711"} {
		wantAllocs(t, 1, keyfuncs.RemoteIP, request(peer))
	}
}
