package keyfuncs_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/sashlimit/sash/keyfuncs"
)

const (
	proxy     = "10.0.0.1:1234" // a trusted peer
	proxyKey  = "ip:10.0.0.1"   // F: the header could not be believed
	clientIP  = "198.51.100.7"
	clientKey = "ip:" + clientIP
)

var ten = keyfuncs.TrustProxies(netip.MustParsePrefix("10.0.0.0/8"))

type ipCase struct {
	name    string
	options []keyfuncs.IPOption // default: ten
	peer    string              // default: proxy
	headers []string
	want    string // empty: ErrNoKey
	reason  string // empty: the observer hears nothing
}

func xff(values ...string) []string { return lines("X-Forwarded-For", values) }

func lines(name string, values []string) []string {
	var out []string
	for _, value := range values {
		out = append(out, name+": "+value)
	}
	return out
}

func with(options ...keyfuncs.IPOption) []keyfuncs.IPOption { return options }

func runIPCases(t *testing.T, cases []ipCase) {
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			if test.options == nil {
				test.options = with(ten)
			}
			if test.peer == "" {
				test.peer = proxy
			}
			r := request(test.peer, test.headers...)
			var heard []string
			observe := keyfuncs.OnUntrusted(func(got *http.Request, reason string) {
				if got != r {
					t.Error("the observer got another request")
				}
				heard = append(heard, reason)
			})
			for _, f := range []keyfuncs.Func{
				keyfuncs.IP(append(with(observe), test.options...)...),
				keyfuncs.IP(test.options...), // the same without an observer
			} {
				if test.want == "" {
					wantNoKey(t, f, r)
				} else if got := mustKey(t, f, r); got != test.want {
					t.Errorf("key %s, want %s", got, test.want)
				}
			}
			var want []string
			if test.reason != "" {
				want = append(want, test.reason)
			}
			if fmt.Sprint(heard) != fmt.Sprint(want) {
				t.Errorf("the observer heard %v, want %v", heard, want)
			}
		})
	}
}

func TestIPForwardedFor(t *testing.T) {
	var cases []ipCase
	for _, list := range [][]string{ // the client is the last that is no proxy
		{"6.6.6.6, 198.51.100.7"}, {"6.6.6.6", "198.51.100.7"}, {"garbage, 198.51.100.7"}, {"", "198.51.100.7"},
		{`"6.6.6.6, 198.51.100.7`}, {"198.51.100.7:52241"}, {"::ffff:198.51.100.7"}, {"198.51.100.7, ::ffff:10.0.0.9"},
		{"6.6.6.6 \t,\t 198.51.100.7 \t ,\t10.0.0.9 "}, {"10.0.0.8,198.51.100.7,10.0.0.9:80"},
		{"6.6.6.6", "198.51.100.7, 10.0.0.8", "10.0.0.9"},
	} {
		cases = append(cases, ipCase{name: fmt.Sprintf("%q", list), headers: xff(list...), want: clientKey})
	}
	for _, list := range [][]string{ // what no proxy writes is not trusted
		{"198.51.100.7, garbage"}, {"198.51.100.7, garbage, 10.0.0.9"}, {"198.51.100.7, "}, {"198.51.100.7", ""}, {""},
		{"198.51.100.7,,10.0.0.9"}, {"198.51.100.7 10.0.0.9"}, {"198.51.100.7\u00a0"}, {`"198.51.100.7"`}, {"01.2.3.4"},
		{"198.51.100.7:_p"}, {"198.51.100.7:65536"}, {"198.51.100.7:"}, {"[198.51.100.7]"}, {"[2001:db8::1]x:80"},
		{"198.51.100.0/24"},
	} {
		name := fmt.Sprintf("%q", list)
		cases = append(cases, ipCase{name: name, headers: xff(list...), want: proxyKey, reason: "malformed"})
	}
	for _, peer := range []string{"[::ffff:10.0.0.1]:80", "10.0.0.0:80", "10.255.255.255:80", "10.0.0.1"} {
		cases = append(cases, ipCase{name: "trusted " + peer, peer: peer, headers: xff(clientIP), want: clientKey})
	}
	runIPCases(t, append(cases, []ipCase{
		{name: "untrusted peer", peer: "198.51.100.7:80", headers: xff("garbage"), want: clientKey},
		{name: "just outside the network", peer: "11.0.0.0:80", headers: xff("198.51.100.7"), want: "ip:11.0.0.0"},
		{name: "all trusted", headers: xff("10.1.1.1", "10.0.0.9"), want: "ip:10.1.1.1"},
		{name: "no header", want: proxyKey, reason: "missing"},
		{name: "IPv6 with port", headers: xff("[2001:db8:1:2::5]:443"), want: "ip:2001:db8:1:2::/64"},
		{name: "zone", headers: xff("fe80::1%a"), want: "ip:fe80::/64"},
		{name: "other headers do not replace it", headers: []string{"X-Real-IP: 6.6.6.6", "Forwarded: for=6.6.6.6"},
			want: proxyKey, reason: "missing"},
		{name: "unix socket", peer: "@", headers: xff("198.51.100.7"), want: ""},

		{name: "prefix with host bits", options: with(keyfuncs.TrustProxies(prefixes("10.1.2.3/8")...)),
			headers: xff("198.51.100.7"), want: clientKey},
		{name: "IPv4-mapped prefix", options: with(keyfuncs.TrustProxies(prefixes("::ffff:10.0.0.0/104")...)),
			headers: xff("198.51.100.7, 10.2.2.2"), want: clientKey},
		{name: "options add up", options: with(ten, keyfuncs.TrustProxies(prefixes("192.0.2.0/24")...)),
			headers: xff("198.51.100.7, 192.0.2.9"), want: clientKey},
		{name: "one network inside another",
			options: with(keyfuncs.TrustProxies(prefixes("10.0.0.0/24", "10.0.0.0/8", "10.200.0.0/16")...)),
			peer:    "10.9.9.9:80", headers: xff("198.51.100.7, 10.200.0.1, 10.201.0.1"), want: clientKey},
		{name: "IPv6 proxy", options: with(keyfuncs.TrustProxies(prefixes("2001:db8:f::/48", "10.0.0.0/8")...)),
			peer:    "[2001:db8:f::1]:80",
			headers: xff("198.51.100.7, 2001:db8:f:9::1, 10.0.0.3"), want: clientKey},
		{name: "trust goes by address, not by /64",
			options: with(keyfuncs.TrustProxies(prefixes("2001:db8:1:2::1/128")...)), peer: "[2001:db8:1:2::1]:80",
			headers: xff("6.6.6.6, 2001:db8:1:2::2"), want: "ip:2001:db8:1:2::/64"},
		{name: "zoned proxy", options: with(keyfuncs.TrustProxies(prefixes("fe80::/10")...)), peer: "[fe80::1%eth0]:80",
			headers: xff("198.51.100.7, fe80::9%eth7"), want: clientKey},
		{name: "zoned proxy without a header", options: with(keyfuncs.TrustProxies(prefixes("fe80::/10")...)),
			peer: "[fe80::1%eth0]:80",
			want: "ip:fe80::1%eth0", reason: "missing"},
		{name: "private ranges", options: with(keyfuncs.TrustProxies(keyfuncs.PrivateRanges()...)),
			peer:    "127.0.0.1:80",
			headers: xff("6.6.6.6, 198.51.100.7, 192.168.3.4, 172.31.0.1, fd00::1, ::1"), want: clientKey},
		{name: "carrier-grade NAT is not private", options: with(keyfuncs.TrustProxies(keyfuncs.PrivateRanges()...)),
			peer:    "127.0.0.1:80",
			headers: xff("6.6.6.6, 100.64.0.1"), want: "ip:100.64.0.1"},

		{name: "IPv6Prefix 128", options: with(ten, keyfuncs.IPv6Prefix(128)), headers: xff("2001:db8:1:2::5"),
			want: "ip:2001:db8:1:2::5/128"},
		{name: "IPv6Prefix alone", options: with(keyfuncs.IPv6Prefix(48)), peer: "[2001:db8:1:2::5]:80",
			headers: xff("1.1.1.1"), want: "ip:2001:db8:1::/48"},
		{name: "IPv6Prefix and a zoned peer", options: with(keyfuncs.IPv6Prefix(48)), peer: "[fe80::1%eth0]:80",
			want: "ip:fe80::1%eth0"},
	}...))
}

func TestIPTrustHops(t *testing.T) {
	hops := func(n int) []keyfuncs.IPOption { return with(keyfuncs.TrustHops(n)) }
	runIPCases(t, []ipCase{
		{name: "one", options: hops(1), headers: xff("6.6.6.6, 198.51.100.7"), want: clientKey},
		{name: "two, over two lines", options: hops(2), headers: xff("6.6.6.6, 198.51.100.7", "203.0.113.9"),
			want: clientKey},
		{name: "fewer entries than hops", options: hops(2), headers: xff("198.51.100.7"), want: proxyKey,
			reason: "too_short"},
		{name: "no header", options: hops(2), want: proxyKey, reason: "missing"},
		{name: "garbage at the client", options: hops(2), headers: xff("6.6.6.6, garbage, 203.0.113.9"), want: proxyKey,
			reason: "malformed"},
		{name: "garbage on the left", options: hops(1), headers: xff("garbage, 198.51.100.7"), want: clientKey},
		{name: "unix socket", options: hops(1), peer: "@", headers: xff("198.51.100.7"), want: ""},

		{name: "with proxies: stops at hops", options: with(ten, keyfuncs.TrustHops(1)),
			headers: xff("6.6.6.6, 10.5.5.5"), want: "ip:10.5.5.5"},
		{name: "with proxies: stops at the first that is not listed", options: with(ten, keyfuncs.TrustHops(3)),
			headers: xff("6.6.6.6, 198.51.100.7, 10.5.5.5"), want: clientKey},
		{name: "with proxies: fewer entries", options: with(ten, keyfuncs.TrustHops(3)), headers: xff("10.5.5.5"),
			want: "ip:10.5.5.5"},
	})
}

func TestIPFromHeader(t *testing.T) {
	cf := with(ten, keyfuncs.FromHeader("cf-connecting-ip"))
	one := func(values ...string) []string { return lines("CF-Connecting-IP", values) }
	runIPCases(t, []ipCase{
		{name: "trusted peer", options: cf, headers: one("198.51.100.7"), want: clientKey},
		{name: "blanks", options: cf, headers: one(" 198.51.100.7\t"), want: clientKey},
		{name: "untrusted peer", options: cf, peer: "198.51.100.7:80", headers: one("1.1.1.1"), want: clientKey},
		{name: "missing", options: cf, headers: xff("6.6.6.6"), want: proxyKey, reason: "missing"},
		{name: "twice", options: cf, headers: one(clientIP, clientIP), want: proxyKey, reason: "repeated"},
		{name: "a list", options: cf, headers: one("6.6.6.6, 198.51.100.7"), want: proxyKey, reason: "repeated"},
		{name: "empty", options: cf, headers: one(""), want: proxyKey, reason: "malformed"},
		{name: "others are ignored", options: cf, headers: append(one("198.51.100.7"), "X-Forwarded-For: 6.6.6.6",
			"X-Real-IP: 6.6.6.6"), want: clientKey},
	})
}

func TestIPUnixSocket(t *testing.T) {
	unix := with(keyfuncs.TrustUnixSocket())
	runIPCases(t, []ipCase{
		{name: "the last entry", options: unix, peer: "@", headers: xff("6.6.6.6, 198.51.100.7"), want: clientKey},
		{name: "named client socket", options: unix, peer: "/run/nginx.sock", headers: xff("198.51.100.7"),
			want: clientKey},
		{name: "no header", options: unix, peer: "@", want: "ip:unix", reason: "missing"},
		{name: "with proxies", options: with(ten, keyfuncs.TrustUnixSocket()), peer: "@",
			headers: xff("6.6.6.6, 198.51.100.7, 10.0.0.9"), want: clientKey},
		{name: "with hops, too short", options: with(keyfuncs.TrustHops(2), keyfuncs.TrustUnixSocket()), peer: "@",
			headers: xff("198.51.100.7"), want: "ip:unix", reason: "too_short"},
		{name: "with FromHeader", options: with(keyfuncs.FromHeader("X-Real-IP"), keyfuncs.TrustUnixSocket()),
			peer: "@", headers: []string{"X-Real-IP: 198.51.100.7"}, want: clientKey},
		{name: "loopback is not trusted by it", options: unix, peer: "127.0.0.1:80", headers: xff("6.6.6.6"),
			want: "ip:127.0.0.1"},
		{name: "garbage is no socket", options: unix, peer: "198.51.100.7:http", headers: xff("6.6.6.6"), want: ""},
	})
	f := keyfuncs.IP(unix...)
	if got := mustKey(t, f, request("", "X-Forwarded-For: 198.51.100.7")); got != clientKey {
		t.Errorf("empty RemoteAddr: %s", got)
	}
	wantNoKey(t, keyfuncs.IP(ten), request("", "X-Forwarded-For: 198.51.100.7"))

	// The server knows on which kind of socket it listens.
	local := func(r *http.Request, addr net.Addr) *http.Request {
		return r.WithContext(context.WithValue(context.Background(), http.LocalAddrContextKey, addr))
	}
	wantNoKey(t, f, local(request("", "X-Forwarded-For: 6.6.6.6"), &net.TCPAddr{Port: 80}))
	socket := &net.UnixAddr{Name: "s", Net: "unix"}
	if got := mustKey(t, f, local(request("client.sock", "X-Forwarded-For: 198.51.100.7"), socket)); got != clientKey {
		t.Errorf("client with a relative path: %s", got)
	}
}

func TestIPPanicsOnMisuse(t *testing.T) {
	trust := func(list ...string) func() {
		return func() { keyfuncs.IP(keyfuncs.TrustProxies(prefixes(list...)...)) }
	}
	ip := func(options ...keyfuncs.IPOption) func() { return func() { keyfuncs.IP(options...) } }
	for _, test := range []struct {
		name  string
		do    func()
		words []string
	}{
		{"all-clients", trust("0.0.0.0/0"), []string{"0.0.0.0/0", "10.0.0.0/8", "TrustHops"}},
		{"a quarter", ip(ten, keyfuncs.TrustProxies(prefixes("192.0.0.0/2")...)), []string{"192.0.0.0/2"}},
		{"half of IPv6", trust("8000::/1"), []string{"8000::/1"}},
		{"all public IPv6", trust("2000::/3"), []string{"2000::/3"}},
		{"a quarter of it", trust("2000::/5"), []string{"2000::/5"}},
		{"everyone, IPv4-mapped", trust("::ffff:0.0.0.0/96"), []string{"0.0.0.0/0"}},
		{"more than the mapped ones", trust("::ffff:0.0.0.0/90"), []string{"::ffc0:0:0/90"}},
		{"invalid prefix", ip(keyfuncs.TrustProxies(netip.MustParsePrefix("10.0.0.0/8"),
			netip.PrefixFrom(netip.MustParseAddr("10.0.0.0"), 33))), []string{"prefix 2 of 2"}},
		{"no prefix", trust(), []string{"no prefixes", "PrivateRanges", "TrustHops"}},
		{"no hops", ip(keyfuncs.TrustHops(0)), []string{"TrustHops(0)", "RemoteIP"}},
		{"too many hops", ip(keyfuncs.TrustHops(101)), []string{"TrustHops(101)", "100"}},
		{"no bits", ip(keyfuncs.IPv6Prefix(0)), []string{"IPv6Prefix(0)", "128", "64"}},
		{"too many bits", ip(keyfuncs.IPv6Prefix(129)), []string{"IPv6Prefix(129)"}},
		{"header name beyond ASCII", ip(ten, keyfuncs.FromHeader("X-É")), []string{"X-É"}},
		{"FromHeader of a list", ip(ten, keyfuncs.FromHeader("x-forwarded-for")),
			[]string{"TrustProxies", "leave FromHeader out"}},
		{"FromHeader of Forwarded", ip(ten, keyfuncs.FromHeader("forwarded")), []string{"X-Forwarded-For"}},
		{"FromHeader without proxies", ip(keyfuncs.FromHeader("X-Real-IP")), []string{"X-Real-Ip", "TrustProxies"}},
		{"FromHeader and hops", ip(ten, keyfuncs.FromHeader("X-Real-IP"), keyfuncs.TrustHops(1)),
			[]string{"FromHeader", "TrustHops", "contradict"}},
		{"nil observer", ip(ten, keyfuncs.OnUntrusted(nil)), []string{"OnUntrusted"}},
		{"nil option", ip(ten, nil), []string{"option 2 of 2 is nil"}},
	} {
		t.Run(test.name, func(t *testing.T) { mustPanic(t, test.do, test.words...) })
	}
}

// What people really trust must not be refused.
func TestIPTakesUsualNetworks(t *testing.T) {
	for _, list := range [][]netip.Prefix{
		keyfuncs.PrivateRanges(),
		append(keyfuncs.PrivateRanges(), netip.MustParsePrefix("100.64.0.0/10")),
		prefixes("0.0.0.0/8", "10.0.0.0/8", "10.0.0.0/8", "10.0.0.0/9"), // the same addresses count once
		prefixes("173.245.48.0/20", "104.16.0.0/13", "2400:cb00::/32", "2a06:98c0::/29"),
		prefixes("192.0.2.1/32", "2001:db8::1/128"),
		prefixes("192.0.0.0/3", "2000::/6"),
	} {
		keyfuncs.IP(keyfuncs.TrustProxies(list...))
	}
}

func TestIPKeepsACopyOfThePrefixes(t *testing.T) {
	list := prefixes("10.0.0.0/8")
	option := keyfuncs.TrustProxies(list...)
	list[0] = netip.MustParsePrefix("192.0.2.0/24")
	f := keyfuncs.IP(option)
	list[0] = netip.MustParsePrefix("192.0.2.0/24")
	if got := mustKey(t, f, request(proxy, "X-Forwarded-For: 198.51.100.7")); got != clientKey {
		t.Error(got)
	}
	a, b := keyfuncs.PrivateRanges(), keyfuncs.PrivateRanges()
	a[0] = netip.Prefix{}
	if !b[0].IsValid() {
		t.Error("PrivateRanges hands out the same slice twice")
	}
}

func TestIPAllocations(t *testing.T) {
	observe := keyfuncs.OnUntrusted(func(*http.Request, string) {})
	for name, test := range map[string]struct {
		f       keyfuncs.Func
		headers []string
	}{
		"IPv4":       {keyfuncs.IP(ten, observe), xff("6.6.6.6, 198.51.100.7, 10.0.0.9")},
		"99 proxies": {keyfuncs.IP(ten), xff("198.51.100.7" + strings.Repeat(", 10.0.0.9", 99))},
		"hops":       {keyfuncs.IP(keyfuncs.TrustHops(2)), xff("198.51.100.7, 10.0.0.9")},
		"FromHeader": {keyfuncs.IP(ten, keyfuncs.FromHeader("X-Real-IP")), []string{"X-Real-IP: 198.51.100.7"}},
	} {
		t.Run(name, func(t *testing.T) { wantAllocs(t, 1, test.f, request(proxy, test.headers...)) })
	}
}

// What NAT64 embeds names a client. It makes no proxy of it, and no other client of a proxy.
func TestIPNAT64(t *testing.T) {
	nat64 := keyfuncs.TrustProxies(netip.MustParsePrefix("64:ff9b::/96"))
	runIPCases(t, []ipCase{
		{name: "in a list", headers: xff("64:ff9b::198.51.100.7"), want: clientKey},
		{name: "not public, 128 bits", options: with(ten, keyfuncs.IPv6Prefix(128)), headers: xff("64:ff9b::10.0.0.1"),
			want: "ip:64:ff9b::/96"},
		{name: "no proxy by what it embeds", peer: "[64:ff9b::10.0.0.1]:80", headers: xff("6.6.6.6"),
			want: "ip:64:ff9b::/64"},
		{name: "a proxy by what it is", options: with(nat64), peer: "[64:ff9b::203.0.113.9]:80",
			headers: xff("198.51.100.7"), want: clientKey},
		{name: "a proxy that is not trusted", options: with(nat64), peer: "[64:ff9b::203.0.113.9]:80",
			want: "ip:203.0.113.9", reason: "missing"},
	})
}

// TestAddr: the address is that by which IP names the client, with its zone and not taken out of NAT64. A header that
// cannot be believed makes the client no other one, also not the proxy.
func TestAddr(t *testing.T) {
	direct, proxied := keyfuncs.Addr(), keyfuncs.Addr(ten)
	for _, c := range []struct {
		name    string
		addr    func(*http.Request) (netip.Addr, error)
		peer    string
		headers []string
		want    string // "": ErrNoKey
	}{
		{"NAT64", direct, "[64:ff9b::198.51.100.7]:1", nil, "64:ff9b::c633:6407"},
		{"a peer with a zone", direct, "[fe80::1%eth0]:1", nil, "fe80::1%eth0"},
		{"no peer", direct, "@", xff("10.0.0.1"), ""},
		{"a client", proxied, proxy, xff("198.51.100.7"), "198.51.100.7"},
		{"a client that gets around the proxy", proxied, "198.51.100.7:1", xff("10.1.2.3"), "198.51.100.7"},
		{"a proxy that writes no header", proxied, proxy, nil, ""},
		{"a unix socket without a header", keyfuncs.Addr(keyfuncs.TrustUnixSocket()), "@", nil, ""},
	} {
		got, err := c.addr(request(c.peer, c.headers...))
		if c.want == "" && (!errors.Is(err, keyfuncs.ErrNoKey) || got.IsValid()) {
			t.Errorf("%s: got %v, %v, want ErrNoKey", c.name, got, err)
		}
		if c.want != "" && (err != nil || got.String() != c.want) {
			t.Errorf("%s: got %v, %v, want %s", c.name, got, err, c.want)
		}
	}
}

func TestIPBounds(t *testing.T) {
	proxies := func(n int) string { return strings.Repeat(", 10.0.0.9", n) }
	blanks := func(n int, element string) string { return strings.Repeat(" ", n-len(element)) + element }
	one := with(ten, keyfuncs.FromHeader("X-One"))
	runIPCases(t, []ipCase{
		{name: "the 100th entry", headers: xff("6.6.6.6, 198.51.100.7" + proxies(99)), want: clientKey},
		{name: "the 101st entry", headers: xff("6.6.6.6, 198.51.100.7" + proxies(100)), want: proxyKey,
			reason: "too_long"},
		{name: "the 101st line", headers: xff(strings.Split("198.51.100.7"+proxies(100), ", ")...), want: proxyKey,
			reason: "too_long"},
		{name: "100 hops, too short", options: with(keyfuncs.TrustHops(100)),
			headers: xff("198.51.100.7" + proxies(98)), want: proxyKey,
			reason: "too_short"},

		{name: "8191 bytes", headers: xff(blanks(8191, clientIP)), want: clientKey},
		{name: "8192 bytes", headers: xff(blanks(8192, clientIP)), want: proxyKey, reason: "too_long"},
		{name: "8192 bytes behind a line", headers: xff("6.6.6.6", blanks(8192, clientIP)), want: proxyKey,
			reason: "too_long"},
		{name: "too many bytes of several lines", headers: xff(blanks(4096, clientIP), blanks(4095, "10.0.0.9")),
			want:   proxyKey,
			reason: "too_long"},
		{name: "a megabyte in front", headers: xff(strings.Repeat("6.6.6.6,", 1<<17) + clientIP), want: clientKey},

		{name: "FromHeader, 8192 bytes", options: one, headers: []string{"X-One: " + blanks(8192, clientIP)},
			want: clientKey},
		{name: "FromHeader, 8193 bytes", options: one, headers: []string{"X-One: " + blanks(8193, clientIP)},
			want:   proxyKey,
			reason: "too_long"},
	})
}
