package keyfuncs_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/sashlimit/sash/keyfuncs"
)

// peers has the addresses of clients by their keys.
var peers = map[string][]string{
	"ip:198.51.100.7": {"198.51.100.7:4711", "198.51.100.7", "198.51.100.7:0", "[::ffff:198.51.100.7]:4711",
		"::ffff:c633:6407", "[64:ff9b::198.51.100.7]:4711"}, // NAT64: the IPv4 client, if it is a public one
	"ip:198.51.100.8":      {"[64:ff9b::c633:6408]:4711"},
	"ip:0.0.0.0":           {"0.0.0.0:65535"},
	"ip:255.249.199.99":    {"255.249.199.99:00080"},
	"ip:2001:db8:1:2::/64": {"[2001:db8:1:2:3:4:5:6]:4711", "[2001:db8:1:2:ffff::1]", "2001:db8:1:2::1"},
	"ip:2001:db8:1:3::/64": {"2001:DB8:1:3::1"},
	"ip:2001:db8::/64":     {"[2001:db8::1]:1"},
	"ip:fe80::1%eth0":      {"[fe80::1%eth0]:4711"},
	"ip:fe80::2%eth0":      {"[fe80::2%eth0]:4711"},
	"ip:fe80::1%eth1":      {"fe80::1%eth1"},
	"ip:fe80::/64":         {"[fe80::1]:4711"},
	"ip:::/64":             {"[::1]:4711"},
	"ip:64:ff9b::/64": {"[64:ff9b::10.0.0.1]:4711", "[64:ff9b::127.0.0.1]:4711", "[64:ff9b::100.64.0.1]:4711",
		"[64:ff9b::0.1.2.3]:4711", "[64:ff9b::192.0.0.1]:4711", "[64:ff9b::198.18.0.1]:4711",
		"[64:ff9b::224.0.0.1]:4711", "[64:ff9b::240.0.0.1]:4711", "[64:ff9b::255.255.255.255]:4711",
		"[64:ff9b::1:198.51.100.7]:4711"}, // beyond the /96
	"ip:64:ff9b:1::/64":          {"[64:ff9b:1::198.51.100.7]:4711"}, // local use: the place is not known
	"ip:64:ff9b::c633:6407%eth0": {"[64:ff9b::198.51.100.7%eth0]:1"},
	"ip:2002:c633:6407:9::/64":   {"[2002:c633:6407:9::1]:4711"}, // 6to4 is IPv6 like others
}

var notPeers = []string{
	"", "@", "@abstract", "/run/app.sock", "unknown", "pipe", "localhost:80",
	":80", "[]:80", "[", "]", "[]", ":", "::1]", "[::1", "[198.51.100.7]:80",
	"198.51.100.7:", "198.51.100.7:http", "198.51.100.7:65536", "198.51.100.7:-1",
	"198.51.100.07:80", "198.51.100.256:80", "198.51.256.1:80", "198.51..7:80", "198.51.100:80", "198.51.100.7.1:80",
	"198.51.100.7:80:80", "198.51.100.7:80.1", "00.51.100.7:80", "198.51.100.:80", "198.51.100",
	"198.51.100.7.1", "0x7f.1", "2130706433", " 198.51.100.7",
	"[2001:db8::1]443", "[2001:db8::1]:", "2001:db8:1:2:3:4:5:6:443", "fe80::1%",
	"fe80::1%" + strings.Repeat("z", 200),
}

// TestRemoteIP: the peer names the client, whatever the headers say. Without options, IP is RemoteIP, and IPKey returns
// the same.
func TestRemoteIP(t *testing.T) {
	for name, f := range map[string]keyfuncs.Func{"RemoteIP": keyfuncs.RemoteIP, "IP": keyfuncs.IP()} {
		for want, list := range peers {
			for _, peer := range list {
				r := request(peer, "X-Forwarded-For: 1.1.1.1", "Forwarded: for=1.1.1.1", "X-Real-IP: 1.1.1.1")
				addr, _ := keyfuncs.Addr()(r)
				if got, key := mustKey(t, f, r), keyfuncs.IPKey(addr, 0); got != want || key != want {
					t.Errorf("%s of %s: got %s, IPKey %s, want %s", name, peer, got, key, want)
				}
			}
		}
		for _, peer := range notPeers {
			if err := wantNoKey(t, f, request(peer)); !strings.Contains(err.Error(), "TrustUnixSocket") {
				t.Errorf("%s of %q: got %v, want an error that says what to do", name, peer, err)
			}
		}
	}
}

// TestIPKey: IPKey returns the key of IP with as many bits, and none where no request has one.
func TestIPKey(t *testing.T) {
	client := netip.MustParseAddr("2001:db8:1:2::5")
	for _, c := range []struct {
		addr netip.Addr
		bits int
		want string
	}{
		{client, 48, "ip:2001:db8:1::/48"},
		{client, 1, "ip:::/1"},
		{client, 128, "ip:2001:db8:1:2::5/128"},
		{client, -1, ""},
		{client, 129, ""},
		{netip.Addr{}, 0, ""},
		{netip.MustParseAddr("::ffff:192.0.2.1"), 0, "ip:192.0.2.1"},
	} {
		if got := keyfuncs.IPKey(c.addr, c.bits); got != c.want {
			t.Errorf("IPKey(%v, %d) = %q, want %q", c.addr, c.bits, got, c.want)
		}
	}
}

func TestRemoteIPAllocations(t *testing.T) {
	for _, peer := range []string{"198.51.100.7:4711", "[2001:db8:1:2:3:4:5:6]:4711", "[::ffff:198.51.100.7]:4711",
		"[64:ff9b::198.51.100.7]:4711", "[64:ff9b::10.0.0.1]:4711"} {
		wantAllocs(t, 1, keyfuncs.RemoteIP, request(peer))
	}
}
