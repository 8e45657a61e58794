package attack_test

import (
	"fmt"
	"slices"
	"strings"
)

// line is what a client would like to see in the log, as a line of its own.
const line = `{"time":"2026-01-01T00:00:00Z","level":"INFO","msg":"request","method":"FORGED","path":"/","status":200}`

// escaped is line as a path may hold it, with a newline of each kind before and after it.
func escaped(newline string) string {
	return newline + strings.NewReplacer(`"`, "%22", " ", "%20", "{", "%7b", "}", "%7d").Replace(line) + newline
}

// everywhere is a request that holds the marker in whatever the client chooses.
func everywhere(send, header, want string) shot {
	fields := "Host: M.example\r\nUser-Agent: M\r\nReferer: http://M/\r\nOrigin: http://M\r\n" +
		"Cookie: M=M\r\nAccept-Language: M\r\nX-Request-ID: M\r\nM: M\r\nTraceparent: M\r\n"
	return shot{
		send:   strings.ReplaceAll(send, "?", "?"+marker+"="+marker+"&"),
		header: header + strings.ReplaceAll(fields, "M", marker),
		body:   marker,
		want:   want,
	}
}

var texts = []attack{
	{name: "lines for the log", shots: slices.Concat(
		each(notServed, "GET /"+escaped("%0a"), "GET /"+escaped("%0d%0a"), "GET /"+escaped("%e2%80%a8"),
			"GET /"+escaped("%00"), "GET /%1b%5b2J%1b%5bH", "GET /%22%7d%0a", "GET /%5c%22", "GET /%ff%fe%00",
			"GET /"+strings.Repeat("\xff", 10_000), "GET /${jndi:ldap://x}"),
		with("User-Agent: "+line+"\r\nReferer: "+line+"\r\n"+xff+line+"\r\n", each("200", "GET /api/data")...),
		each(notServed, strings.Repeat("M", 10_000)+" /nowhere", "!#$%&'*+-.^_`|~ /nowhere"),
		each("400", "GET /%s%d%n%!x", "GET /\n"+line, "GET /\r"+line, line),
	)},
	{name: "an echo in the answer", shots: slices.Concat(
		[]shot{
			everywhere("GET /"+marker+"?", "", notServed),
			everywhere("GET /%0d%0aX-Injected:%20yes?", "", notServed),
			everywhere(marker+" /api/data?", "", notServed),
			everywhere("OPTIONS /api/data?", "", notServed),
			everywhere("GET /health?", "", "200"),
			everywhere("GET /api/data?", alice, "200"),
			everywhere("GET /api/data?", xff+marker+"\r\n", "200"),
			everywhere("GET /%zz"+marker, "", "400"),
			everywhere("GET /api/data HTTP/"+marker, "", "400"),
		},
		with(alice, shot{send: "POST /login", times: 5, want: "5x200"}),
		[]shot{
			everywhere("POST /login?", alice, "429"),
			everywhere("POST /login?", alice+"Accept: text/html\r\n", "429"),
			everywhere("POST /login?", alice+"Accept: text/plain, text/"+marker+"\r\n", "429"),
		},
	)},
}

const xff = "X-Forwarded-For: "

// forged are fields by which a client could claim another address.
var forged = []string{
	"X-Forwarded-For: 192.0.2.%d\r\n", "X-Forwarded-For: 192.0.2.%d, 127.0.0.1\r\n",
	"X-Forwarded-For: 127.0.0.1, 192.0.2.%d\r\n", "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-For: 192.0.2.%d\r\n",
	"Forwarded: for=192.0.2.%d\r\n", "Forwarded: for=\"[2001:db8:%d::1]:80\";by=127.0.0.1\r\n",
	"X-Real-IP: 192.0.2.%d\r\n", "CF-Connecting-IP: 192.0.2.%d\r\n", "CF-Connecting-IPv6: 2001:db8:%d::1\r\n",
	"True-Client-IP: 192.0.2.%d\r\n", "Fly-Client-IP: 192.0.2.%d\r\n", "X-Client-IP: 192.0.2.%d\r\n",
	"X-Cluster-Client-IP: 192.0.2.%d\r\n", "X-Azure-ClientIP: 192.0.2.%d\r\n",
	"X-Envoy-External-Address: 192.0.2.%d\r\n", "X-Original-Forwarded-For: 192.0.2.%d\r\n",
	"Via: 1.1 192.0.2.%d\r\n", "From: user%d@example.com\r\n", "Cookie: session=%d\r\n", "User-Agent: agent-%d\r\n",
	"Authorization: Basic %d\r\n", "Host: host-%d\r\n",
	"Connection: X-Forwarded-For\r\nX-Forwarded-For: 192.0.2.%d\r\n", "X_Forwarded_For: 192.0.2.%d\r\n",
	"PROXY: TCP4 192.0.2.%d 127.0.0.1 1 2\r\n",
}

// claims returns requests of one client under a limit of 5, each of which claims to come from elsewhere.
func claims(line string) []shot {
	var shots []shot
	for i, f := range forged {
		want := "429"
		if i < 5 {
			want = "200"
		}
		shots = append(shots, shot{send: line, header: fmt.Sprintf(f, i+1), want: want})
	}
	return shots
}

var names = []attack{{name: "forged addresses without a proxy", direct: true,
	shots: slices.Concat(claims("POST /api/upload"), claims("POST /login"))}}
