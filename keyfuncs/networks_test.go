package keyfuncs_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/sashlimit/sash/keyfuncs"
)

// TestNetworks: addresses and keys in a list of networks.
func TestNetworks(t *testing.T) {
	n := keyfuncs.In("10.0.0.0/8", "198.51.100.7/24", "2001:db8::/32", "::ffff:192.0.2.0/120",
		"10.1.0.0/16", "fe80::/10")
	for addr, want := range map[string]bool{
		"10.0.0.0": true, "10.255.255.255": true, "11.0.0.0": false, "9.255.255.255": false,
		"198.51.100.1": true, "198.51.101.1": false, "192.0.2.255": true, "192.0.3.0": false,
		"::ffff:10.1.2.3": true, "2001:db8:ffff::1": true, "2001:db9::1": false, "fe80::1%eth0": true,
		"64:ff9b::a00:1": false, "2002:a00:1::1": false,
	} {
		if got := n.Has(netip.MustParseAddr(addr)); got != want {
			t.Errorf("Has(%s) = %v, want %v", addr, got, want)
		}
	}
	var none keyfuncs.Networks
	if n.Has(netip.Addr{}) || none.Has(netip.MustParseAddr("10.0.0.1")) || none.HasKey("ip:10.0.0.1") {
		t.Error("the zero Addr, or the zero Networks")
	}
	for key, want := range map[string]bool{
		"ip:10.1.2.3": true, "ip:11.1.2.3": false, "ip:2001:db8:1:2::/64": true, "ip:2001:db9:1:2::/64": false,
		"ip:2000::/16": false, "ip:2001:db8::/31": false, "ip:2001:db8::/32": true, "ip:unix": false, "ip:": false,
		"10.1.2.3": false, "user:10.1.2.3": false, "": false, "ip:10.1.2.3 ": false, "ip:10.0.0.0/8": true,
		"ip:" + strings.Repeat("1", 1000): false, "ip:64:ff9b::/64": false, "ip:2002:a00:1::/48": false,
	} {
		if got := n.HasKey(key); got != want {
			t.Errorf("HasKey(%q) = %v, want %v", key, got, want)
		}
	}
	if p := netip.MustParsePrefix("10.0.0.0/8"); !keyfuncs.In(p).HasKey("ip:10.1.2.3") {
		t.Error("a netip.Prefix")
	}
}

// TestHasClient: the client is who the trusted proxies say, and what a client writes, or a
// header that cannot be believed, puts it into no network.
func TestHasClient(t *testing.T) {
	office := keyfuncs.In("10.0.0.0/8", "198.51.100.0/24")
	direct := office.HasClient()
	proxies := keyfuncs.TrustProxies(netip.MustParsePrefix("10.0.0.0/24"))
	proxied := office.HasClient(proxies)
	header := office.HasClient(proxies, keyfuncs.FromHeader("X-Real-IP"))
	for _, c := range []struct {
		name       string
		in         func(*http.Request) bool
		peer       string
		forwarded  string
		want       bool
		wantByName bool // by the key of IP, which names the proxy where its header cannot be believed
	}{
		{"peer inside", direct, "198.51.100.7:1234", "", true, true},
		{"peer outside", direct, "203.0.113.5:1234", "", false, false},
		{"peer outside with a header", direct, "203.0.113.5:1234", "10.0.0.1", false, false},
		{"no peer", direct, "@", "10.0.0.1", false, false},
		{"client inside", proxied, "10.0.0.1:1234", "198.51.100.7", true, true},
		{"client outside", proxied, "10.0.0.1:1234", "203.0.113.5", false, false},
		{"client that writes an address inside", proxied, "10.0.0.1:1234", "198.51.100.7, 203.0.113.5", false, false},
		{"client that gets around the proxy", proxied, "203.0.113.5:1234", "198.51.100.7", false, false},
		{"proxy that writes no header", proxied, "10.0.0.1:1234", "", false, true},
		{"proxy that writes garbage", proxied, "10.0.0.1:1234", "198.51.100.7, unknown", false, true},
		{"other header", header, "10.0.0.1:1234", "198.51.100.7", false, true},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.peer
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		if got := c.in(r); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		key, _ := keyfuncs.IP(proxies)(r)
		if strings.HasPrefix(c.name, "proxy") && office.HasKey(key) != c.wantByName {
			t.Errorf("%s: the key %q", c.name, key)
		}
	}
}

// TestInPanics: what is no list of networks is an error of construction, with words.
func TestInPanics(t *testing.T) {
	for name, f := range map[string]func(){
		"without networks":   func() { keyfuncs.In[string]() },
		"10.0.0.7/32":        func() { keyfuncs.In("10.0.0.0/8", "10.0.0.7") },
		"prefix 2 of 2":      func() { keyfuncs.In("10.0.0.0/8", "") },
		"10.0.0.0/33":        func() { keyfuncs.In("10.0.0.0/33") },
		"invalid":            func() { keyfuncs.In(netip.Prefix{}) },
		"::ffff:0.0.0.0/90":  func() { keyfuncs.In("::ffff:0.0.0.0/90") },
		"FromForwarded need": func() { keyfuncs.In("10.0.0.0/8").HasClient(keyfuncs.FromForwarded()) },
	} {
		func() {
			defer func() {
				if p := fmt.Sprint(recover()); !strings.Contains(p, name) || !strings.HasPrefix(p, "keyfuncs: ") {
					t.Errorf("%s: panic %v", name, p)
				}
			}()
			f()
		}()
	}
}

// TestEveryone: all requests have one key.
func TestEveryone(t *testing.T) {
	if key, err := keyfuncs.Everyone(nil); key != "everyone" || err != nil {
		t.Error(key, err)
	}
}

func ExampleIn() {
	office := keyfuncs.In("198.51.100.0/24", "2001:db8::/32")
	fmt.Println(office.HasKey("ip:198.51.100.7"), office.HasKey("ip:203.0.113.5"))
	// Output: true false
}
