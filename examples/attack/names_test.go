package attack_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// forged are fields by which a client could claim another address.
var forged = []string{
	"X-Forwarded-For: 192.0.2.%d\r\n", "x-forwarded-for:192.0.2.%d\r\n", "X-Forwarded-For: 192.0.2.%d, 127.0.0.1\r\n",
	"X-Forwarded-For: 127.0.0.1, 192.0.2.%d\r\n", "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-For: 192.0.2.%d\r\n",
	"Forwarded: for=192.0.2.%d\r\n", "Forwarded: for=\"[2001:db8:%d::1]:80\";by=127.0.0.1\r\n",
	"X-Real-IP: 192.0.2.%d\r\n",
	"CF-Connecting-IP: 192.0.2.%d\r\n", "CF-Connecting-IPv6: 2001:db8:%d::1\r\n", "CF-Pseudo-IPv4: 192.0.2.%d\r\n",
	"True-Client-IP: 192.0.2.%d\r\n", "Fly-Client-IP: 192.0.2.%d\r\n", "X-Client-IP: 192.0.2.%d\r\n",
	"Client-IP: 192.0.2.%d\r\n",
	"X-Cluster-Client-IP: 192.0.2.%d\r\n", "X-Azure-ClientIP: 192.0.2.%d\r\n",
	"X-Envoy-External-Address: 192.0.2.%d\r\n",
	"X-Original-Forwarded-For: 192.0.2.%d\r\n", "X-Forwarded: 192.0.2.%d\r\n", "Forwarded-For: 192.0.2.%d\r\n",
	"X-Remote-Addr: 192.0.2.%d\r\n", "Remote-Addr: 192.0.2.%d\r\n", "Via: 1.1 192.0.2.%d\r\n",
	"From: user%d@example.com\r\n",
	"Cookie: session=%d\r\n", "User-Agent: agent-%d\r\n", "Authorization: Basic %d\r\n", "X-Tenant: %d\r\n",
	"Host: host-%d\r\n",
	"Connection: X-Forwarded-For\r\nX-Forwarded-For: 192.0.2.%d\r\n", "X_Forwarded_For: 192.0.2.%d\r\n",
	"PROXY: TCP4 192.0.2.%d 127.0.0.1 1 2\r\n",
}

// claims returns requests of one client under a limit of n, each of which claims to come from elsewhere.
func claims(line string, n int) []shot {
	var shots []shot
	for i, f := range forged {
		want := "429"
		if i < n {
			want = "200"
		}
		shots = append(shots, shot{send: line, header: fmt.Sprintf(f, i+1), want: want})
	}
	return shots
}

// walk is a header that a trusted proxy passes on, and the client that it names. In the header C stands for the
// address of a client that has sent nothing yet, and the words of forms for the same address in other forms.
type walk struct {
	header string
	client string // "C"; "peer" is the proxy itself; and any other name, for the requests of that name
	status int    // 0: 200
}

// forms are other ways to write an IPv4 address.
func forms(c netip.Addr) *strings.Replacer {
	b := c.As4()
	hex := fmt.Sprintf("%02x%02x:%02x%02x", b[0], b[1], b[2], b[3])
	return strings.NewReplacer(
		"MAPPEDHEX", "::ffff:"+hex, "MAPPED", "::ffff:"+c.String(),
		"NAT64HEX", "64:ff9b::"+hex, "NAT64", "64:ff9b::"+c.String(),
		"C", c.String())
}

const xff = "X-Forwarded-For: "

var walks = []walk{
	// What stands left of the address that the proxy has seen is the client's own text.
	{xff + "192.0.2.1, C", "C", 0},
	{xff + "127.0.0.1, C", "C", 0},
	{xff + "192.0.2.1, 127.0.0.1, 127.0.0.2, C", "C", 0},
	{xff + "nonsense, C", "C", 0},
	{xff + "unknown, _hidden, \"quoted, C", "C", 0},
	{xff + "<script>" + marker + "</script>, ' OR 1=1 --, C", "C", 0},
	{xff + ", , ,, C", "C", 0},
	{xff + "[, ], :, ::, C", "C", 0},
	{xff + "\x80\xff\xfe, C", "C", 0},
	{xff + "192.0.2.1\r\n" + xff + "192.0.2.2\r\n" + xff + "C", "C", 0},
	{xff + "192.0.2.1\r\nx-forwarded-for: 192.0.2.2\r\nX-FORWARDED-FOR:C", "C", 0},
	{strings.Repeat(xff+"192.0.2.1\r\n", 1000) + xff + "C", "C", 0},
	{xff + strings.Repeat("192.0.2.1, ", 5_400) + "C", "C", 0},
	{xff + strings.Repeat(",", 60_000) + "C", "C", 0},
	{xff + strings.Repeat("x", 60_000) + ",C", "C", 0},

	// Trusted proxies on the right are passed.
	{xff + "C, 127.0.0.9", "C", 0},
	{xff + "C, 127.0.0.1, 127.255.255.255, 127.0.0.1:1234, ::ffff:127.0.0.1", "C", 0},
	{xff + "192.0.2.1, C, 127.0.0.1\r\n" + xff + "127.0.0.2", "C", 0},
	{xff + "C\r\n" + xff + "127.0.0.1", "C", 0},
	{xff + "C" + strings.Repeat(", 127.0.0.1", 50), "C", 0},
	{xff + "C" + strings.Repeat(", 127.0.0.1", 5_000), "peer", 0}, // more than is looked at
	{xff + "127.0.0.1", "peer", 0},
	{xff + "127.0.0.1, 127.0.0.1", "peer", 0},

	// One address has one name, however it is written.
	{xff + "C:1234", "C", 0},
	{xff + "   C\t ", "C", 0},
	{xff + "MAPPED", "C", 0},
	{xff + "MAPPEDHEX", "C", 0},
	{xff + "[MAPPED]:443", "C", 0},
	{xff + "MAPPED%eth0", "C", 0},
	{xff + "NAT64", "C", 0},
	{xff + "NAT64HEX", "C", 0},
	{xff + "[NAT64]:443", "C", 0},
	{xff + "C, 64:ff9b::127.0.0.1", "64:ff9b::/64", 0}, // no proxy by what it embeds
	{xff + "64:ff9b::10.0.0.1", "64:ff9b::/64", 0},     // and no client inside
	{xff + "2001:db8:1:2::1", "2001:db8:1:2::/64", 0},
	{xff + "2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::/64", 0},
	{xff + "[2001:DB8:1:2::7]:8080", "2001:db8:1:2::/64", 0},
	{xff + "2001:db8:1:2::1%eth0", "2001:db8:1:2::/64", 0},
	{xff + "2001:db8:1:2::1%" + strings.Repeat("x", 40), "2001:db8:1:2::/64", 0},
	{xff + "2001:db8:1:3::1", "2001:db8:1:3::/64", 0},
	{xff + "fe80::1%1", "fe80::/64", 0},
	{xff + "fe80::2%2", "fe80::/64", 0},

	// An entry that cannot be read ends the walk at the proxy. It does not go on to what the client wrote.
	{"", "peer", 0},
	{xff, "peer", 0},
	{xff + "C,", "peer", 0},
	{xff + "C, nonsense", "peer", 0},
	{xff + "C, unknown", "peer", 0},
	{xff + "C, 999.1.1.1", "peer", 0},
	{xff + "C, 0x7f.1", "peer", 0},
	{xff + "C, 2130706433", "peer", 0},
	{xff + "C, 127.0.0.01", "peer", 0},
	{xff + "C, 127.0.0.1:x", "peer", 0},
	{xff + "C, 127.0.0.1:99999", "peer", 0},
	{xff + "C, [192.0.2.1]", "peer", 0},
	{xff + "C; 192.0.2.1", "peer", 0},
	{xff + "C 192.0.2.1", "peer", 0},
	{xff + "C/32", "peer", 0},
	{xff + "\"C\"", "peer", 0},
	{xff + "for=C", "peer", 0},
	{xff + "C,\r\n" + xff, "peer", 0},
	{xff + "C, " + strings.Repeat("1", 10_000), "peer", 0},
	{xff + "C, %31", "peer", 0},

	// Other headers are not read, and headers that cannot be sent are refused.
	{"Forwarded: for=C\r\nX-Real-IP: C\r\nTrue-Client-IP: C\r\nCF-Connecting-IP: C", "peer", 0},
	{"X-Real-IP: 192.0.2.1\r\nForwarded: for=192.0.2.1\r\n" + xff + "C", "C", 0},
	{"X_Forwarded_For: 192.0.2.1\r\n" + xff + "C", "C", 0},
	{xff + "C\r\n 192.0.2.1", "peer", 0}, // a line that goes on is the same entry
	{xff + "C\x00", "", 400},
	{xff + "C\x01", "", 400},
	{xff + "C\x7f", "", 400},
	{"X-Forwarded-For : C", "", 400},
	{"X-Forwarded-For\x00: C", "", 400},
	{xff + strings.Repeat("192.0.2.1, ", 8_000) + "C", "", 431},
	{strings.Repeat("X-Padding: "+strings.Repeat("x", 1000)+"\r\n", 80) + xff + "C", "", 431},
}

// unknown is what is left of a limit that a wrongly named request may have been charged to.
const unknown = -1

// followed sends every walk and checks which client was charged.
func followed(x *target) {
	left := map[string]int{"peer": 100}
	for i, w := range walks {
		address := netip.AddrFrom4([4]byte{198, 51, 100, byte(i)})
		name := strings.ReplaceAll(w.client, "C", address.String())
		header := forms(address).Replace(w.header)
		if header != "" {
			header += "\r\n"
		}
		if _, known := left[name]; !known {
			left[name] = 100
		}
		if w.client == "C" { // the plain request first
			x.charge(left, address.String(), xff+address.String()+"\r\n")
		}
		if w.status == 0 {
			x.charge(left, name, header)
			continue
		}
		r := x.ask(shot{send: "GET /api/data", header: header}.text())
		x.saw("%.100q: %d", header, r.status)
		x.check(r.status == w.status, "%.100q: got %d (%v), want %d", header, r.status, r.err, w.status)
	}
}

// charge sends a request and checks that it was charged to the client of that name, of whose limit left is left.
func (x *target) charge(left map[string]int, name, header string) {
	r := x.ask(shot{send: "GET /api/data", header: header}.text())
	got := r.number("X-RateLimit-Remaining")
	x.saw("%.100q: %d, %d left", header, r.status, got)
	want := left[name] - 1
	ok := r.status == 200 && (got == want || left[name] == unknown)
	x.check(ok, "%.100q is not %s: got %d (%v) with %d left, want 200 with %d", header, name, r.status, r.err, got,
		want)
	if ok {
		left[name] = got
		return
	}
	for name := range left {
		left[name] = unknown
	}
}

var names = []attack{
	{name: "forged addresses without a proxy", direct: true, onRedis: true, shots: slices.Concat(
		claims("POST /api/upload", 5), claims("POST /login", 5), claims("GET /api/search", 30))},
	{name: "the walk through X-Forwarded-For", onRedis: true, run: followed},
}
