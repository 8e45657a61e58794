package keyfuncs_test

import (
	"testing"

	"github.com/sashlimit/sash/keyfuncs"
)

func TestIPFromForwarded(t *testing.T) {
	cases := []ipCase{
		{name: "quoted IPv6 with port", headers: forwarded(`for="[2001:db8:cafe::17]:4711"`), want: "ip:2001:db8:cafe::/64"},
		{name: "obfuscated", headers: forwarded("for=_hidden"), want: proxyKey, reason: keyfuncs.HeaderMalformed},
		{name: "unknown", headers: forwarded("for=unknown"), want: proxyKey, reason: keyfuncs.HeaderMalformed},

		{name: "token", headers: forwarded("for=198.51.100.7"), want: clientKey},
		{name: "quoted", headers: forwarded(`for="198.51.100.7"`), want: clientKey},
		{name: "quoted with port", headers: forwarded(`for="198.51.100.7:4711"`), want: clientKey},
		{name: "quoted with obfuscated port", headers: forwarded(`for="198.51.100.7:_p.1-a_B"`), want: clientKey},
		{name: "quoted IPv6 with obfuscated port", headers: forwarded(`for="[2001:db8:cafe::17]:_p"`), want: "ip:2001:db8:cafe::/64"},
		{name: "bad obfuscated port", headers: forwarded(`for="198.51.100.7:_"`), want: proxyKey, reason: keyfuncs.HeaderMalformed},
		{name: "bad character in an obfuscated port", headers: forwarded(`for="198.51.100.7:_a+"`), want: proxyKey, reason: keyfuncs.HeaderMalformed},
		{name: "IPv4-mapped", headers: forwarded(`for="[::ffff:198.51.100.7]"`), want: clientKey},
		{name: "zone", headers: forwarded(`for="[fe80::1%a]"`), want: "ip:fe80::/64"},
		{name: "port without quotes", headers: forwarded("for=198.51.100.7:4711"), want: clientKey},
		{name: "IPv6 without quotes", headers: forwarded("for=[2001:db8:cafe::17]:4711"), want: "ip:2001:db8:cafe::/64"},
		{name: "escapes", headers: forwarded(`for="\198.\51.100\.7"`), want: clientKey},
		{name: "name in capitals", headers: forwarded("FOR=198.51.100.7"), want: clientKey},
		{name: "mixed case", headers: forwarded("pRoTo=https;fOr=198.51.100.7"), want: clientKey},
		{name: "all parameters", headers: forwarded("by=203.0.113.43;for=198.51.100.7;host=example.com;proto=https"), want: clientKey},
		{name: "blanks around pairs", headers: forwarded("  proto=https ;\tfor=198.51.100.7 ; by=_x\t"), want: clientKey},
		{name: "empty pairs", headers: forwarded(";;for=198.51.100.7;;"), want: clientKey},
		{name: "names that contain for", headers: forwarded("xfor=6.6.6.6;forx=6.6.6.6;for=198.51.100.7"), want: clientKey},

		{name: "forged element on the left", headers: forwarded("for=6.6.6.6, for=198.51.100.7"), want: clientKey},
		{name: "two lines", headers: forwarded("for=6.6.6.6", "for=198.51.100.7"), want: clientKey},
		{name: "a trusted proxy on the right", headers: forwarded("for=198.51.100.7, for=10.0.0.9"), want: clientKey},
		{name: "trusted proxies over lines", headers: forwarded("for=6.6.6.6", "for=198.51.100.7, for=10.0.0.8", `for="10.0.0.9:80";proto=https`), want: clientKey},
		{name: "no blanks", headers: forwarded("for=6.6.6.6,for=198.51.100.7,for=10.0.0.9"), want: clientKey},
		{name: "all trusted", headers: forwarded("for=10.1.1.1, for=10.0.0.9"), want: "ip:10.1.1.1"},
		{name: "obfuscated proxy on the right", headers: forwarded("for=198.51.100.7, for=_proxy"), want: proxyKey, reason: keyfuncs.HeaderMalformed},
		{name: "obfuscated on the left", headers: forwarded("for=_x, for=198.51.100.7"), want: clientKey},
		{name: "untrusted peer", peer: "198.51.100.7:80", headers: forwarded("for=1.1.1.1"), want: clientKey},
		{name: "no header", want: proxyKey, reason: keyfuncs.HeaderMissing},
		{name: "X-Forwarded-For is ignored", headers: xff("6.6.6.6"), want: proxyKey, reason: keyfuncs.HeaderMissing},
		{name: "empty", headers: forwarded(""), want: proxyKey, reason: keyfuncs.HeaderMalformed},
		{name: "empty element on the right", headers: forwarded("for=198.51.100.7, "), want: proxyKey, reason: keyfuncs.HeaderMalformed},
		{name: "no for", headers: forwarded("for=6.6.6.6, proto=https"), want: proxyKey, reason: keyfuncs.HeaderMalformed},
		{name: "for twice", headers: forwarded("for=6.6.6.6;for=198.51.100.7"), want: proxyKey, reason: keyfuncs.HeaderMalformed},
		{name: "empty value", headers: forwarded("for="), want: proxyKey, reason: keyfuncs.HeaderMalformed},
		{name: "empty quoted value", headers: forwarded(`for=""`), want: proxyKey, reason: keyfuncs.HeaderMalformed},
		{name: "empty other value", headers: forwarded("for=198.51.100.7;by="), want: proxyKey, reason: keyfuncs.HeaderMalformed},
		{name: "a bare address", headers: forwarded("198.51.100.7"), want: proxyKey, reason: keyfuncs.HeaderMalformed},
		{name: "a bare word behind", headers: forwarded("for=198.51.100.7;secure"), want: proxyKey, reason: keyfuncs.HeaderMalformed},
		{name: "bad name", headers: forwarded("x y=1;for=198.51.100.7"), want: proxyKey, reason: keyfuncs.HeaderMalformed},
		{name: "empty name", headers: forwarded("=1;for=198.51.100.7"), want: proxyKey, reason: keyfuncs.HeaderMalformed},
		{name: "blank before the equals sign", headers: forwarded("for =198.51.100.7"), want: proxyKey, reason: keyfuncs.HeaderMalformed},
		{name: "blank behind the equals sign", headers: forwarded("for= 198.51.100.7"), want: proxyKey, reason: keyfuncs.HeaderMalformed},
		{name: "two pairs without a semicolon", headers: forwarded("for=198.51.100.7 proto=https"), want: proxyKey, reason: keyfuncs.HeaderMalformed},
		{name: "text behind the quotes", headers: forwarded(`for="198.51.100.7"x`), want: proxyKey, reason: keyfuncs.HeaderMalformed},

		{name: "comma in quotes", headers: forwarded(`for=6.6.6.6, for=198.51.100.7;x="a, for=7.7.7.7"`), want: clientKey},
		{name: "comma in quotes in front", headers: forwarded(`for=6.6.6.6, x="a, for=7.7.7.7";for=198.51.100.7`), want: clientKey},
		{name: "semicolon in quotes", headers: forwarded(`for=198.51.100.7;x="a;for=7.7.7.7"`), want: clientKey},
		{name: "escaped quote", headers: forwarded(`for=198.51.100.7;x="\", for=7.7.7.7;y=\""`), want: clientKey},
		{name: "escaped backslash at the end", headers: forwarded(`for=6.6.6.6, for=198.51.100.7;x="\\"`), want: clientKey},
		{name: "escaped backslash and quote", headers: forwarded(`for=6.6.6.6, for=198.51.100.7;x="\\\", for=7.7.7.7"`), want: clientKey},
		{name: "escaped comma", headers: forwarded(`for=198.51.100.7;x="\,"`), want: clientKey},
		{name: "a for inside quotes does not count", headers: forwarded(`for=6.6.6.6, x="for=198.51.100.7"`), want: proxyKey, reason: keyfuncs.HeaderMalformed},

		{name: "open quote on the left", headers: forwarded(`for="6.6.6.6, for=198.51.100.7`), want: clientKey},
		{name: "open quote on the left, quotes on the right", headers: forwarded(`for="6.6.6.6, for="198.51.100.7"`), want: clientKey},
		{name: "open quote in a line of its own", headers: forwarded(`for=6.6.6.6;x="`, `for="198.51.100.7"`), want: clientKey},
		{name: "open quote in the line before the proxy's", headers: forwarded(`for=6.6.6.6;x="`, `for=198.51.100.7;y="z"`), want: clientKey},
		{name: "backslash at the end of the left", headers: forwarded(`for=6.6.6.6;x="\, for="198.51.100.7"`), want: clientKey},
		{name: "open quote and proxies", headers: forwarded(`x=", for="198.51.100.7", for="10.0.0.9:80";by="_a,b"`), want: clientKey},
		{name: "quotes never close in another line", headers: forwarded(`for=6.6.6.6;x="`, `for=198.51.100.7;y="`), want: proxyKey, reason: keyfuncs.HeaderMalformed},
		{name: "open quote at the end", headers: forwarded(`for=198.51.100.7;x="`), want: proxyKey, reason: keyfuncs.HeaderMalformed},
		{name: "closing quote is escaped", headers: forwarded(`for=198.51.100.7;x="\"`), want: proxyKey, reason: keyfuncs.HeaderMalformed},
		{name: "quote inside a token", headers: forwarded(`for=198.51.100.7;x=a"b"`), want: proxyKey, reason: keyfuncs.HeaderMalformed},
		{name: "backslash outside quotes", headers: forwarded(`for=198\.51.100.7`), want: proxyKey, reason: keyfuncs.HeaderMalformed},

		{name: "hops", options: with(keyfuncs.TrustHops(2), keyfuncs.FromForwarded()), headers: forwarded(`for=6.6.6.6, for=198.51.100.7;x=",", for=203.0.113.9`), want: clientKey},
		{name: "fewer elements than hops", options: with(keyfuncs.TrustHops(2), keyfuncs.FromForwarded()), headers: forwarded(`for=198.51.100.7;x=","`), want: proxyKey, reason: keyfuncs.HeaderTooShort},
	}
	for i := range cases {
		if cases[i].options == nil {
			cases[i].options = with(ten, keyfuncs.FromForwarded())
		}
	}
	runIPCases(t, cases)
}
