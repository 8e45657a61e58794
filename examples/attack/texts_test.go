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

// accepts are values of Accept. A refusal is as quick for the last ones as for the first.
var accepts = []string{
	"", "*/*", "text/html", "text/plain", "application/json", "text/html;q=0, text/plain", marker + "/" + marker,
	"text/html; q=" + marker, "text/html;;;;q=0", ";", "/", "\x80/\xff",
	"text/html\", <script>" + marker + "</script>",
	strings.Repeat(",", 60_000), strings.Repeat(";", 60_000), strings.Repeat(", ", 30_000),
	strings.Repeat("q=0;", 15_000),
	strings.Repeat("text/html;q=0,", 4_000), strings.Repeat("text/html;q=0.", 4_000),
	"text/html;q=0." + strings.Repeat("0", 60_000),
	strings.Repeat("a/b,", 15_000) + "text/html", strings.Repeat("x", 60_000),
	strings.Repeat("\t", 60_000) + "text/plain",
}

// negotiated spends a limit and wants the refusal in all forms.
func negotiated(x *target) {
	x.fire(shot{send: "POST /api/upload", header: alice, times: 6, want: "5x200 429"})
	for _, accept := range accepts {
		r := x.ask(shot{send: "POST /api/upload", header: alice + "Accept: " + accept + "\r\n"}.text())
		kind := r.header.Get("Content-Type")
		x.saw("Accept: %.60q: %d %s", accept, r.status, kind)
		x.check(r.status == 429 && slices.Contains([]string{"application/problem+json", "text/html; charset=utf-8",
			"text/plain; charset=utf-8"}, kind), "Accept: %.60q: got %d %q (%v), want 429 in JSON, HTML or text",
			accept, r.status, kind, r.err)
	}
	many := strings.Repeat("Accept: text/html;q=0\r\n", 2_000)
	x.fire(shot{send: "POST /api/upload", header: alice + many, want: "429"})
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
	{name: "hostile Accept", run: negotiated},
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
