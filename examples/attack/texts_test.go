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

// crowded opens many connections and says little or nothing on them. The server answers others meanwhile.
func crowded(x *target) {
	var open []*conn
	for i := range 300 {
		c, err := x.dial()
		if err != nil {
			x.check(false, "no connection: %v", err)
			return
		}
		defer c.Close()
		open = append(open, c)
		if i%2 == 0 {
			_, _ = fmt.Fprintf(c, "POST /api/upload HTTP/1.1\r\nHost: test\r\nX-Slow: %d", i)
		}
	}
	x.fire(shot{send: "GET /api/data", header: alice, times: 10, want: "10x200"})
	x.fire(shot{send: "POST /login", header: alice, times: 6, want: "5x200 429"})
	x.check(len(open) == 300, "%d connections", len(open))
}

var logs = []attack{
	{name: "lines for the log", shots: slices.Concat(
		each("404", "GET /"+escaped("%0a"), "GET /"+escaped("%0d%0a"), "GET /"+escaped("%e2%80%a8"),
			"GET /"+escaped("%00"),
			"GET /"+escaped("%c2%85"), "GET /"+escaped("%0b"), "GET /%1b%5b2J%1b%5bH", "GET /%22%7d%0a",
			"GET /%5c%22", "GET /%ff%fe%00",
			"GET /"+strings.Repeat("%0a", 10_000), "GET /"+strings.Repeat("\xff", 10_000), "GET /\xe2\x80\xa8",
			"GET /${jndi:ldap://x}"),
		with("User-Agent: "+line+"\r\nX-API-Key: "+line+"\r\n"+xff+line+"\r\n", each("400", "GET /api/data")...),
		with("User-Agent: "+line+"\r\nReferer: "+line+"\r\n"+xff+line+"\r\n", each("200", "GET /api/data")...),
		each("404", strings.Repeat("M", 10_000)+" /nowhere", "!#$%&'*+-.^_`|~ /nowhere"),
		each("400", "GET /%s%d%n%!x", "GET /\n"+line, "GET /\r"+line, line),
	)},
	{name: "an echo in the answer", shots: slices.Concat(
		[]shot{
			everywhere("GET /"+marker+"?", "", "404"),
			everywhere("GET /%0d%0aX-Injected:%20yes?", "", "404"),
			everywhere(marker+" /api/data?", "", "405"),
			everywhere("OPTIONS /api/data?", "", "204"),
			everywhere("GET /health?", "", "200"),
			everywhere("GET /api/data?", alice, "200"),
			everywhere("GET /api/data?", wrong+alice, "200"),
			everywhere("GET /api/data?", first+second+alice, "400"),
			everywhere("GET /api/data?", first+xff+marker+"\r\n", "200"),
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
	{name: "many idle connections", run: crowded},
	{name: "large and many headers", shots: []shot{
		{send: "GET /api/data", header: alice + "Cookie: " + strings.Repeat("a=b; ", 12_000) + "\r\n", want: "200"},
		{send: "GET /api/data", header: alice + strings.Repeat("A: b\r\n", 8_000), want: "200"},
		{send: "GET /api/data?" + strings.Repeat("a=b&", 15_000), header: alice, want: "200"},
		{send: "GET /api/data?" + strings.Repeat("a;", 15_000), header: alice, want: "200"},
		{send: "GET /api/data", header: alice + strings.Repeat("A: b\r\n", 20_000), want: "431"},
		{send: "GET /api/data", header: alice + "A: " + strings.Repeat("b", 1_000_000) + "\r\n", want: "431"},
		{send: "GET /" + strings.Repeat("b", 1_000_000), header: alice, want: "431"},
	}},
}
