package keyfuncs_test

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/sashlimit/sash/keyfuncs"
)

// FuzzForwardedForPrefix plays an attacker that writes arbitrary text into the header, in front of what the trusted
// proxies append. The key must be the same as if nothing had been sent.
func FuzzForwardedForPrefix(f *testing.F) {
	f.Fuzz(func(t *testing.T, prefix string, addr []byte, shape uint8) {
		client, ok := netip.AddrFromSlice(addr)
		if !ok || netip.MustParsePrefix("10.0.0.0/8").Contains(client.Unmap()) { // no proxy
			client = netip.MustParseAddr(clientIP)
		}
		first, want := client.String(), keyfuncs.IPKey(client, 0)
		switch shape & 3 {
		case 1:
			first = netip.AddrPortFrom(client, 4711).String()
		case 2: // the first proxy did not know the client
			first, want = "unknown", proxyKey
		case 3:
			first, want = "", proxyKey
		}
		proxies := []string{"10.0.0.9", "[::ffff:10.1.2.3]:80", "\t10.0.0.8:1 "}[:shape>>2&3]
		attack(t, prefix, append([]string{first}, proxies...), want)
	})
}

// attack checks that the key is the one wanted with and without the prefix, and with 8 KiB of it, in each way in which
// proxies may append to what came before. They trust the entries, of which the first is about the client.
func attack(t *testing.T, prefix string, trusted []string, want string) {
	joined := strings.Join(trusted, ", ")
	long := strings.Repeat(prefix+",", 8192/(len(prefix)+1))
	for _, lines := range [][]string{
		{joined},
		trusted,
		{prefix + ", " + joined},
		{prefix + "," + strings.Join(trusted, ",")},
		{prefix, joined},
		{prefix, prefix, joined},
		{long + joined},
		{long, joined},
		append([]string{prefix}, trusted...),
		append([]string{prefix + ", " + trusted[0]}, trusted[1:]...),
	} {
		for i, key := range []keyfuncs.Func{keyfuncs.IP(ten), keyfuncs.IP(keyfuncs.TrustHops(len(trusted)))} {
			if got := mustKey(t, key, request(proxy, xff(lines...)...)); got != want {
				t.Errorf("%d: %q: key %s, want %s", i, lines, got, want)
			}
		}
	}
}

// Whatever comes in, there is a key or an ErrNoKey, and no panic. Only a header
// that must come once is refused.
func FuzzIP(f *testing.F) {
	const header = 6 // the first function of such a header
	funcs := []keyfuncs.Func{
		keyfuncs.RemoteIP,
		keyfuncs.IP(),
		keyfuncs.IP(ten),
		keyfuncs.IP(keyfuncs.TrustHops(1), keyfuncs.IPv6Prefix(56)),
		keyfuncs.IP(keyfuncs.TrustHops(2), keyfuncs.TrustUnixSocket()),
		keyfuncs.IP(ten, keyfuncs.FromHeader("X-Real-IP"), keyfuncs.TrustUnixSocket()),
		keyfuncs.Header("X-Real-IP"),
		keyfuncs.APIKey("X-Real-IP", known),
	}
	f.Fuzz(func(t *testing.T, peer, one, two string) {
		fast, _ := keyfuncs.RemoteIP(request(peer))
		if byNetip, _ := funcs[1](request(peer)); fast != byNetip {
			t.Errorf("peer %q: RemoteIP says %q, IP says %q", peer, fast, byNetip)
		}
		for i, key := range funcs {
			for _, values := range [][]string{nil, {one}, {one, two}} {
				r := &http.Request{RemoteAddr: peer, Header: http.Header{
					"X-Forwarded-For": values, "X-Real-Ip": values, "Authorization": values}}
				got, err := key(r)
				switch {
				case err == nil && got != "":
				case errors.Is(err, keyfuncs.ErrNoKey) && got == "" && !(i >= header && len(values) > 1):
				case errors.Is(err, keyfuncs.ErrBadRequest) && got == "" && i >= header:
				default:
					t.Errorf("%d: peer %q, values %q: key %q, error %v", i, peer, values, got, err)
				}
			}
		}
	})
}

// FuzzAPIKey plays a client that holds a key and wants to be counted as another.
// However it writes the key, its address is not what counts unless no parser
// finds the key: where the value of a header is the key, or a list that holds it,
// the request is counted by the key or refused.
func FuzzAPIKey(f *testing.F) {
	key := keyfuncs.First(keyfuncs.APIKey("X-API-Key", known), keyfuncs.RemoteIP)
	one, two := keyfuncs.APIKeyKey("demo-key-1"), keyfuncs.APIKeyKey("demo-key-2")
	f.Fuzz(func(t *testing.T, header, bearer, more string, shape uint8) {
		headers := http.Header{}
		for i, name := range []string{"X-Api-Key", "Authorization"} {
			value, with := []string{header, bearer}[i], shape>>(4*i)
			if with&1 != 0 {
				headers[name] = []string{value}
			}
			if with&2 != 0 {
				headers[name] = append(headers[name], more)
			}
			if with&4 != 0 && len(headers[name]) > 0 {
				headers[name][0] += "," + more
			}
		}
		got, err := key(&http.Request{RemoteAddr: "198.51.100.7:1", Header: headers})
		switch {
		case err == nil && (got == one || got == two || got == clientKey):
		case errors.Is(err, keyfuncs.ErrBadRequest) && got == "":
		default:
			t.Fatalf("%q: key %q, error %v", headers, got, err)
		}
		switch {
		case err != nil:
		case len(headers["X-Api-Key"]) > 1 || len(headers["Authorization"]) > 1:
			t.Errorf("%q: a repeated credential is named %s", headers, got)
		case got == clientKey && presents(headers, "demo-key-1"), got == clientKey && presents(headers, "demo-key-2"):
			t.Errorf("%q: counted by its address, with a known key", headers)
		case presents(headers, "demo-key-1") && presents(headers, "demo-key-2"):
			t.Errorf("%q: two keys, and named %s", headers, got)
		}
	})
}

// presents reports whether a parser of headers that splits at commas and blanks
// finds the key.
func presents(headers http.Header, key string) bool {
	for _, value := range headers["X-Api-Key"] {
		if slices.Contains(words(value), key) {
			return true
		}
	}
	for _, value := range headers["Authorization"] {
		for credential := range strings.SplitSeq(value, ",") {
			if w := words(credential); len(w) > 1 && strings.EqualFold(w[0], "Bearer") && w[1] == key {
				return true
			}
		}
	}
	return false
}

func words(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// Joined keys can be taken apart again, so no two lists have the same key.
func FuzzJoin(f *testing.F) {
	f.Fuzz(func(t *testing.T, a, b, c string) {
		for _, parts := range [][]string{{a}, {a, b}, {a, b, c}, {a, keyfuncs.JoinKeys(b, c)}} {
			joined := keyfuncs.JoinKeys(parts...)
			if got := split(joined); strings.Join(got, "\x00,") != strings.Join(parts, "\x00,") ||
				len(got) != len(parts) {
				t.Errorf("%q joined is %q, which is %q", parts, joined, got)
			}
		}
	})
}

// split is the inverse of JoinKeys.
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
