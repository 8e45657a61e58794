package keyfuncs_test

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/sashlimit/sash/keyfuncs"
)

// The two targets below play an attacker who writes whatever he likes into the
// header, in front of what the trusted proxies append. The key must be the same
// as if he had sent nothing.

func FuzzForwardedForPrefix(f *testing.F) {
	f.Fuzz(func(t *testing.T, prefix string, addr []byte, shape uint8) {
		client := clientAddr(addr)
		first, want := client.String(), keyOf(t, client)
		switch shape & 3 {
		case 1:
			first = netip.AddrPortFrom(client, 4711).String()
		case 2: // the first proxy did not know the client
			first, want = "unknown", proxyKey
		case 3:
			first, want = "", proxyKey
		}
		proxies := []string{"10.0.0.9", "[::ffff:10.1.2.3]:80", "\t10.0.0.8:1 "}[:shape>>2&3]
		attack(t, "X-Forwarded-For", prefix, first, proxies, want, keyfuncs.IP(ten), keyfuncs.IP(keyfuncs.TrustHops(1+len(proxies))))
	})
}

func FuzzForwardedPrefix(f *testing.F) {
	f.Fuzz(func(t *testing.T, prefix string, addr []byte, text string, shape uint8) {
		client := clientAddr(addr)
		first, want := `for="`+client.String()+`"`, keyOf(t, client)
		switch shape & 3 {
		case 1:
			first = `For="` + netip.AddrPortFrom(client, 4711).String() + `"`
		case 2:
			first, want = "for=_hidden", proxyKey
		case 3:
			first = "for=" + quote(client.String(), true)
		}
		// The client may choose some of what a proxy quotes, such as the host.
		quoted := quote(text, false)
		if shape&16 == 0 {
			first += ";host=" + quoted
		} else {
			first = "host=" + quoted + " ; " + first
		}
		proxies := []string{"for=10.0.0.9", `proto=https;FOR="10.0.0.8:_p";host=` + quoted, `for="[::ffff:10.1.2.3]"; by=_me`}[:shape>>2&3]
		attack(t, "Forwarded", prefix, first, proxies, want, keyfuncs.IP(ten, keyfuncs.FromForwarded()),
			keyfuncs.IP(keyfuncs.TrustHops(1+len(proxies)), keyfuncs.FromForwarded()))
	})
}

// attack checks that the key is want with and without the prefix, in each way
// in which a proxy may append to what came before.
func attack(t *testing.T, name, prefix, first string, proxies []string, want string, funcs ...keyfuncs.Func) {
	trusted := append([]string{first}, proxies...)
	joined := strings.Join(trusted, ", ")
	for _, lines := range [][]string{
		{joined},
		trusted,
		{prefix + ", " + joined},
		{prefix + "," + strings.Join(trusted, ",")},
		{prefix, joined},
		{prefix, prefix, joined},
		append([]string{prefix}, trusted...),
		append([]string{prefix + ", " + first}, proxies...),
	} {
		for i, f := range funcs {
			r := &http.Request{RemoteAddr: proxy, Header: http.Header{name: lines}}
			if got := mustKey(t, f, r); got != want {
				t.Errorf("%d: %q: key %s, want %s", i, lines, got, want)
			}
		}
	}
}

// clientAddr makes an address that is not a trusted proxy.
func clientAddr(b []byte) netip.Addr {
	addr, ok := netip.AddrFromSlice(b)
	if !ok || netip.MustParsePrefix("10.0.0.0/8").Contains(addr.Unmap()) {
		return netip.MustParseAddr("198.51.100.7")
	}
	return addr
}

// keyOf is the key of a client who comes without a proxy.
func keyOf(t *testing.T, addr netip.Addr) string {
	return mustKey(t, keyfuncs.RemoteIP, request(netip.AddrPortFrom(addr, 1).String()))
}

// quote makes a quoted-string, with a backslash before every byte or only where
// it must be.
func quote(s string, all bool) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(s) {
		if all || c == '"' || c == '\\' {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	b.WriteByte('"')
	return b.String()
}

// Whatever comes in, there is a key or an ErrNoKey, and no panic.
func FuzzIP(f *testing.F) {
	funcs := []keyfuncs.Func{
		keyfuncs.RemoteIP,
		keyfuncs.IP(),
		keyfuncs.IP(ten),
		keyfuncs.IP(keyfuncs.TrustHops(1), keyfuncs.IPv6Prefix(56)),
		keyfuncs.IP(keyfuncs.TrustHops(2), keyfuncs.FromForwarded(), keyfuncs.TrustUnixSocket()),
		keyfuncs.IP(ten, keyfuncs.FromHeader("X-Real-IP"), keyfuncs.TrustUnixSocket()),
		keyfuncs.Header("X-Real-IP"),
		keyfuncs.APIKey("X-Real-IP", known),
	}
	f.Fuzz(func(t *testing.T, peer, one, two string) {
		for i, key := range funcs {
			for _, values := range [][]string{nil, {one}, {one, two}} {
				r := &http.Request{RemoteAddr: peer, Header: http.Header{
					"X-Forwarded-For": values, "Forwarded": values, "X-Real-Ip": values, "Authorization": values}}
				got, err := key(r)
				switch {
				case err == nil && got != "":
				case errors.Is(err, keyfuncs.ErrNoKey) && got == "":
				default:
					t.Errorf("%d: peer %q, values %q: key %q, error %v", i, peer, values, got, err)
				}
			}
		}
	})
}

// Joined keys can be taken apart again, so no two lists have the same key.
func FuzzJoin(f *testing.F) {
	f.Fuzz(func(t *testing.T, a, b, c string) {
		for _, parts := range [][]string{{a}, {a, b}, {a, b, c}, {a, keyfuncs.JoinString(b, c)}} {
			joined := keyfuncs.JoinString(parts...)
			if got := split(joined); strings.Join(got, "\x00,") != strings.Join(parts, "\x00,") || len(got) != len(parts) {
				t.Errorf("%q joined is %q, which is %q", parts, joined, got)
			}
		}
	})
}

// split is the inverse of JoinString.
func split(joined string) []string {
	joined = strings.TrimPrefix(joined, "join:")
	parts := []string{""}
	for i := 0; i < len(joined); i++ {
		switch joined[i] {
		case '|':
			parts = append(parts, "")
			continue
		case '\\':
			i++
		}
		parts[len(parts)-1] += string(joined[i : i+1])
	}
	return parts
}
