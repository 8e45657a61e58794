package keyfuncs_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
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
	options []keyfuncs.IPOption // nil: ten
	peer    string              // "": proxy
	headers []string
	want    string // "": ErrNoKey
	reason  string // "": the observer hears nothing
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

// trusting returns an option that trusts the networks.
func trusting(list ...string) []keyfuncs.IPOption {
	var prefixes []netip.Prefix
	for _, s := range list {
		prefixes = append(prefixes, netip.MustParsePrefix(s))
	}
	return with(keyfuncs.TrustProxies(prefixes...))
}

// runIPCases checks the cases, with and without an observer.
func runIPCases(t *testing.T, cases []ipCase) {
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			options, r := test.options, request(cmp.Or(test.peer, proxy), test.headers...)
			if options == nil {
				options = with(ten)
			}
			var heard []string
			observe := keyfuncs.OnUntrusted(func(got *http.Request, reason string) {
				if heard = append(heard, reason); got != r {
					t.Error("the observer got another request")
				}
			})
			for _, options := range [][]keyfuncs.IPOption{append(with(observe), options...), options} {
				if f := keyfuncs.IP(options...); test.want == "" {
					wantNoKey(t, f, r)
				} else if got := mustKey(t, f, r); got != test.want {
					t.Errorf("key %s, want %s", got, test.want)
				}
			}
			if !slices.Equal(heard, strings.Fields(test.reason)) {
				t.Errorf("the observer heard %q, want %q", heard, test.reason)
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
		cases = append(cases, ipCase{fmt.Sprintf("%q", list), nil, "", xff(list...), clientKey, ""})
	}
	for _, list := range [][]string{ // what no proxy writes is not trusted
		{"198.51.100.7, garbage"}, {"198.51.100.7, garbage, 10.0.0.9"}, {"198.51.100.7, "}, {"198.51.100.7", ""}, {""},
		{"198.51.100.7,,10.0.0.9"}, {"198.51.100.7 10.0.0.9"}, {"198.51.100.7\u00a0"}, {`"198.51.100.7"`}, {"01.2.3.4"},
		{"198.51.100.7:_p"}, {"198.51.100.7:65536"}, {"198.51.100.7:"}, {"[198.51.100.7]"}, {"[2001:db8::1]x:80"},
		{"198.51.100.0/24"},
	} {
		cases = append(cases, ipCase{fmt.Sprintf("%q", list), nil, "", xff(list...), proxyKey, "malformed"})
	}
	for _, peer := range []string{"[::ffff:10.0.0.1]:80", "10.0.0.0:80", "10.255.255.255:80", "10.0.0.1"} {
		cases = append(cases, ipCase{"trusted " + peer, nil, peer, xff(clientIP), clientKey, ""})
	}
	private, linkLocal := with(keyfuncs.TrustProxies(keyfuncs.PrivateRanges()...)), trusting("fe80::/10")
	nested := trusting("10.0.0.0/24", "10.0.0.0/8", "10.200.0.0/16", "192.0.2.0/24")
	proxies6 := trusting("2001:db8:f::/48", "10.0.0.0/8")
	single, bits48 := with(ten, keyfuncs.IPv6Prefix(128)), keyfuncs.IPv6Prefix(48)
	runIPCases(t, append(cases, []ipCase{
		{"untrusted peer", nil, "198.51.100.7:80", xff("garbage"), clientKey, ""},
		{"just outside the network", nil, "11.0.0.0:80", xff(clientIP), "ip:11.0.0.0", ""},
		{"all trusted", nil, "", xff("10.1.1.1", "10.0.0.9"), "ip:10.1.1.1", ""},
		{"no header", nil, "", nil, proxyKey, "missing"},
		{"IPv6 with port", nil, "", xff("[2001:db8:1:2::5]:443"), "ip:2001:db8:1:2::/64", ""},
		{"zone", nil, "", xff("fe80::1%a"), "ip:fe80::/64", ""},
		{"other headers do not replace it", nil, "", []string{"X-Real-IP: 6.6.6.6", "Forwarded: for=6.6.6.6"},
			proxyKey, "missing"},
		{"unix socket", nil, "@", xff(clientIP), "", ""},

		{"prefix with host bits", trusting("10.1.2.3/8"), "", xff(clientIP), clientKey, ""},
		{"IPv4-mapped prefix", trusting("::ffff:10.0.0.0/104"), "", xff("198.51.100.7, 10.2.2.2"), clientKey, ""},
		{"options add up", append(trusting("192.0.2.0/24"), ten), "", xff("198.51.100.7, 192.0.2.9"), clientKey, ""},
		{"one network inside another", nested, "10.9.9.9:80", xff(clientIP, "192.0.2.1, 10.201.0.1"), clientKey, ""},
		{"IPv6 proxy", proxies6, "[2001:db8:f::1]:80", xff("198.51.100.7, 2001:db8:f:9::1, 10.0.0.3"), clientKey, ""},
		{"trust goes by address, not by /64", trusting("2001:db8:1:2::1/128"), "[2001:db8:1:2::1]:80",
			xff("6.6.6.6, 2001:db8:1:2::2"), "ip:2001:db8:1:2::/64", ""},
		{"zoned proxy", linkLocal, "[fe80::1%eth0]:80", xff("198.51.100.7, fe80::9%eth7"), clientKey, ""},
		{"zoned proxy without a header", linkLocal, "[fe80::1%eth0]:80", nil, "ip:fe80::1%eth0", "missing"},
		{"private ranges", private, "127.0.0.1:80",
			xff("6.6.6.6, 198.51.100.7, 192.168.3.4, 172.31.0.1, fd00::1, ::1"), clientKey, ""},
		{"carrier-grade NAT is not private", private, "127.0.0.1:80", xff("6.6.6.6, 100.64.0.1"), "ip:100.64.0.1", ""},

		{"IPv6Prefix 128", single, "", xff("2001:db8:1:2::5"), "ip:2001:db8:1:2::5/128", ""},
		{"IPv6Prefix alone", with(bits48), "[2001:db8:1:2::5]:80", xff("1.1.1.1"), "ip:2001:db8:1::/48", ""},
		{"IPv6Prefix and a zoned peer", with(bits48), "[fe80::1%eth0]:80", nil, "ip:fe80::1%eth0", ""},
	}...))
}

func TestIPTrustHops(t *testing.T) {
	one, two := with(keyfuncs.TrustHops(1)), with(keyfuncs.TrustHops(2))
	oneOfTen, threeOfTen := with(ten, keyfuncs.TrustHops(1)), with(ten, keyfuncs.TrustHops(3))
	runIPCases(t, []ipCase{
		{"one", one, "", xff("6.6.6.6, 198.51.100.7"), clientKey, ""},
		{"two, over two lines", two, "", xff("6.6.6.6, 198.51.100.7", "203.0.113.9"), clientKey, ""},
		{"fewer entries than hops", two, "", xff(clientIP), proxyKey, "too_short"},
		{"no header", two, "", nil, proxyKey, "missing"},
		{"garbage at the client", two, "", xff("6.6.6.6, garbage, 203.0.113.9"), proxyKey, "malformed"},
		{"garbage on the left", one, "", xff("garbage, 198.51.100.7"), clientKey, ""},
		{"unix socket", one, "@", xff(clientIP), "", ""},

		{"with proxies: stops at hops", oneOfTen, "", xff("6.6.6.6, 10.5.5.5"), "ip:10.5.5.5", ""},
		{"with proxies: stops at the first that is not listed", threeOfTen, "",
			xff("6.6.6.6, 198.51.100.7, 10.5.5.5"), clientKey, ""},
		{"with proxies: fewer entries", threeOfTen, "", xff("10.5.5.5"), "ip:10.5.5.5", ""},
	})
}

func TestIPFromHeader(t *testing.T) {
	cf := with(ten, keyfuncs.FromHeader("cf-connecting-ip"))
	one := func(values ...string) []string { return lines("CF-Connecting-IP", values) }
	runIPCases(t, []ipCase{
		{"trusted peer", cf, "", one(clientIP), clientKey, ""},
		{"blanks", cf, "", one(" 198.51.100.7\t"), clientKey, ""},
		{"untrusted peer", cf, "198.51.100.7:80", one("1.1.1.1"), clientKey, ""},
		{"missing", cf, "", xff("6.6.6.6"), proxyKey, "missing"},
		{"twice", cf, "", one(clientIP, clientIP), proxyKey, "repeated"},
		{"a list", cf, "", one("6.6.6.6, 198.51.100.7"), proxyKey, "repeated"},
		{"empty", cf, "", one(""), proxyKey, "malformed"},
		{"others are ignored", cf, "", append(xff("6.6.6.6"), one(clientIP)...), clientKey, ""},
	})
}

func TestIPUnixSocket(t *testing.T) {
	socket := keyfuncs.TrustUnixSocket()
	unix, proxies, hops := with(socket), with(ten, socket), with(keyfuncs.TrustHops(2), socket)
	realIP := with(keyfuncs.FromHeader("X-Real-IP"), socket)
	runIPCases(t, []ipCase{
		{"the last entry", unix, "@", xff("6.6.6.6, 198.51.100.7"), clientKey, ""},
		{"named client socket", unix, "/run/nginx.sock", xff(clientIP), clientKey, ""},
		{"no header", unix, "@", nil, "ip:unix", "missing"},
		{"with proxies", proxies, "@", xff("6.6.6.6, 198.51.100.7, 10.0.0.9"), clientKey, ""},
		{"with hops, too short", hops, "@", xff(clientIP), "ip:unix", "too_short"},
		{"with FromHeader", realIP, "@", []string{"X-Real-IP: 198.51.100.7"}, clientKey, ""},
		{"loopback is not trusted by it", unix, "127.0.0.1:80", xff("6.6.6.6"), "ip:127.0.0.1", ""},
		{"garbage is no socket", unix, "198.51.100.7:http", xff("6.6.6.6"), "", ""},
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
	r := local(request("client.sock", "X-Forwarded-For: 198.51.100.7"), &net.UnixAddr{Name: "s", Net: "unix"})
	if got := mustKey(t, f, r); got != clientKey {
		t.Errorf("client with a relative path: %s", got)
	}
}

// TestIPPanicsOnMisuse: networks of an eighth of all addresses are taken, larger ones and contradictions are not.
func TestIPPanicsOnMisuse(t *testing.T) {
	ip := func(options ...keyfuncs.IPOption) func() { return func() { keyfuncs.IP(options...) } }
	trust := func(list ...string) func() { return func() { trusting(list...) } }
	trust("192.0.0.0/3", "2000::/6", "10.0.0.0/8", "10.0.0.0/8")()
	mustPanic(t, trust("0.0.0.0/0"), "0.0.0.0/0", "10.0.0.0/8", "TrustHops")
	mustPanic(t, trust("10.0.0.0/8", "192.0.0.0/2"), "192.0.0.0/2")
	mustPanic(t, trust("8000::/1"), "8000::/1")
	mustPanic(t, trust("2000::/5"), "2000::/5")
	mustPanic(t, trust("::ffff:0.0.0.0/96"), "0.0.0.0/0")
	mustPanic(t, trust("::ffff:0.0.0.0/90"), "::ffc0:0:0/90")
	invalid := netip.PrefixFrom(netip.MustParseAddr("10.0.0.0"), 33)
	mustPanic(t, func() { keyfuncs.TrustProxies(netip.MustParsePrefix("10.0.0.0/8"), invalid) }, "prefix 2 of 2")
	mustPanic(t, trust(), "no prefixes", "PrivateRanges", "TrustHops")
	mustPanic(t, ip(keyfuncs.TrustHops(0)), "TrustHops(0)", "RemoteIP")
	mustPanic(t, ip(keyfuncs.TrustHops(101)), "TrustHops(101)", "100")
	mustPanic(t, ip(keyfuncs.IPv6Prefix(0)), "IPv6Prefix(0)", "128", "64")
	mustPanic(t, ip(keyfuncs.IPv6Prefix(129)), "IPv6Prefix(129)")
	mustPanic(t, ip(ten, keyfuncs.FromHeader("X-É")), "X-É")
	mustPanic(t, ip(ten, keyfuncs.FromHeader("x-forwarded-for")), "TrustProxies", "leave FromHeader out")
	mustPanic(t, ip(ten, keyfuncs.FromHeader("forwarded")), "X-Forwarded-For")
	mustPanic(t, ip(keyfuncs.FromHeader("X-Real-IP")), "X-Real-Ip", "TrustProxies")
	mustPanic(t, ip(ten, keyfuncs.FromHeader("X-Real-IP"), keyfuncs.TrustHops(1)), "and TrustHops contradict")
	mustPanic(t, ip(ten, keyfuncs.OnUntrusted(nil)), "OnUntrusted")
	mustPanic(t, ip(ten, nil), "option 2 of 2 is nil")
}

func TestIPKeepsACopyOfThePrefixes(t *testing.T) {
	list := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	option := keyfuncs.TrustProxies(list...)
	list[0] = netip.MustParsePrefix("192.0.2.0/24")
	if got := mustKey(t, keyfuncs.IP(option), request(proxy, "X-Forwarded-For: 198.51.100.7")); got != clientKey {
		t.Error(got)
	}
	a, b := keyfuncs.PrivateRanges(), keyfuncs.PrivateRanges()
	a[0] = netip.Prefix{}
	if !b[0].IsValid() {
		t.Error("PrivateRanges hands out the same slice twice")
	}
}

func TestIPAllocations(t *testing.T) {
	observe, realIP := keyfuncs.OnUntrusted(func(*http.Request, string) {}), keyfuncs.FromHeader("X-Real-IP")
	wantAllocs(t, 1, keyfuncs.IP(ten, observe), request(proxy, xff("6.6.6.6, 198.51.100.7, 10.0.0.9")...))
	wantAllocs(t, 1, keyfuncs.IP(ten), request(proxy, xff(clientIP+strings.Repeat(", 10.0.0.9", 99))...))
	wantAllocs(t, 1, keyfuncs.IP(keyfuncs.TrustHops(2)), request(proxy, xff("198.51.100.7, 10.0.0.9")...))
	wantAllocs(t, 1, keyfuncs.IP(ten, realIP), request(proxy, "X-Real-IP: 198.51.100.7"))
}

// What NAT64 embeds names a client. It makes no proxy of it, and no other client of a proxy.
func TestIPNAT64(t *testing.T) {
	const embedding = "[64:ff9b::203.0.113.9]:80"
	nat64, single := trusting("64:ff9b::/96"), with(ten, keyfuncs.IPv6Prefix(128))
	runIPCases(t, []ipCase{
		{"in a list", nil, "", xff("64:ff9b::198.51.100.7"), clientKey, ""},
		{"not public, 128 bits", single, "", xff("64:ff9b::10.0.0.1"), "ip:64:ff9b::/96", ""},
		{"no proxy by what it embeds", nil, "[64:ff9b::10.0.0.1]:80", xff("6.6.6.6"), "ip:64:ff9b::/64", ""},
		{"a proxy by what it is", nat64, embedding, xff(clientIP), clientKey, ""},
		{"a proxy that is not trusted", nat64, embedding, nil, "ip:203.0.113.9", "missing"},
	})
}

// TestAddr: the address is that by which IP names the client, with its zone and not taken out of NAT64. A header that
// cannot be believed makes the client no other one, also not the proxy.
func TestAddr(t *testing.T) {
	direct, proxied, unix := keyfuncs.Addr(), keyfuncs.Addr(ten), keyfuncs.Addr(keyfuncs.TrustUnixSocket())
	for _, c := range []struct {
		name, peer string
		headers    []string
		addr       func(*http.Request) (netip.Addr, error)
		want       string // "invalid IP": ErrNoKey
	}{
		{"NAT64", "[64:ff9b::198.51.100.7]:1", nil, direct, "64:ff9b::c633:6407"},
		{"a peer with a zone", "[fe80::1%eth0]:1", nil, direct, "fe80::1%eth0"},
		{"no peer", "@", xff("10.0.0.1"), direct, "invalid IP"},
		{"a client", proxy, xff(clientIP), proxied, clientIP},
		{"a client that gets around the proxy", "198.51.100.7:1", xff("10.1.2.3"), proxied, clientIP},
		{"a proxy that writes no header", proxy, nil, proxied, "invalid IP"},
		{"a unix socket without a header", "@", nil, unix, "invalid IP"},
	} {
		got, err := c.addr(request(c.peer, c.headers...))
		if got.String() != c.want || got.IsValid() != (err == nil) || err != nil && !errors.Is(err, keyfuncs.ErrNoKey) {
			t.Errorf("%s: got %v, %v, want %s", c.name, got, err, c.want)
		}
	}
}

func TestIPBounds(t *testing.T) {
	proxies := func(n int) string { return strings.Repeat(", 10.0.0.9", n) }
	padded := func(n int, element string) string { return fmt.Sprintf("%*s", n, element) }
	one, hops := with(ten, keyfuncs.FromHeader("X-One")), with(keyfuncs.TrustHops(100))
	runIPCases(t, []ipCase{
		{"the 100th entry", nil, "", xff("6.6.6.6, 198.51.100.7" + proxies(99)), clientKey, ""},
		{"the 101st entry", nil, "", xff("6.6.6.6, 198.51.100.7" + proxies(100)), proxyKey, "too_long"},
		{"the 101st line", nil, "", xff(strings.Split(clientIP+proxies(100), ", ")...), proxyKey, "too_long"},
		{"100 hops, too short", hops, "", xff(clientIP + proxies(98)), proxyKey, "too_short"},

		{"8191 bytes", nil, "", xff(padded(8191, clientIP)), clientKey, ""},
		{"8192 bytes", nil, "", xff(padded(8192, clientIP)), proxyKey, "too_long"},
		{"8192 bytes behind a line", nil, "", xff("6.6.6.6", padded(8192, clientIP)), proxyKey, "too_long"},
		{"too many bytes of several lines", nil, "", xff(padded(4096, clientIP), padded(4095, "10.0.0.9")),
			proxyKey, "too_long"},
		{"a megabyte in front", nil, "", xff(strings.Repeat("6.6.6.6,", 1<<17) + clientIP), clientKey, ""},

		{"FromHeader, 8192 bytes", one, "", lines("X-One", []string{padded(8192, clientIP)}), clientKey, ""},
		{"FromHeader, 8193 bytes", one, "", lines("X-One", []string{padded(8193, clientIP)}), proxyKey, "too_long"},
	})
}
