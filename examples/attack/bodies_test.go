package attack_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// sleep waits for as many seconds as a server said.
func sleep(seconds int) { time.Sleep(time.Duration(seconds) * time.Second) }

// last is a request that ends its connection.
var last = shot{send: "GET /health", header: "Connection: close\r\n"}.text()

// flood sends raw bytes and the last request on a connection of its own, and returns all answers until the
// server ends the connection. The client does not end its side before, which would end its requests.
func (x *target) flood(raw string) []response {
	c, err := x.dial()
	if err != nil {
		return []response{{err: err}}
	}
	defer c.Close()
	_, _ = io.WriteString(c, raw+last)
	var answers []response
	for {
		r := c.answer("GET /health HTTP/1.1") // either of two requests, whose answers have a body alike
		if timeout, ok := r.err.(net.Error); ok && timeout.Timeout() {
			return append(answers, r)
		}
		if r.err != nil {
			return answers
		}
		answers = append(answers, r)
	}
}

// smuggled are pairs of requests in one, depending on where the first is believed to end. INNER stands for a request
// of the same client, SIZE for its length in hex.
var smuggled = []string{
	"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nINNER",
	"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\nINNER",
	"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\nSIZE\r\nINNER\r\n0\r\n\r\n",
	"Transfer-Encoding: chunked, identity\r\nContent-Length: 5\r\n\r\n0\r\n\r\nINNER",
	"Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\nINNER",
	"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\nINNER",
	"Transfer-Encoding: xchunked\r\nContent-Length: 0\r\n\r\nINNER",
	"Transfer-Encoding : chunked\r\nContent-Length: 0\r\n\r\nINNER",
	"Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\nINNER",
	"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\nINNER",
	"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nINNER",
	"Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\nINNER",
	"X: y\r\n Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\nINNER",
	"Content-Length: 0\r\nContent-Length: 4\r\n\r\nINNER",
	"Content-Length: 0, 0\r\n\r\nINNER",
	"Content-Length: +0\r\n\r\nINNER",
	"Content-Length: -1\r\n\r\nINNER",
	"Content-Length: 0x0\r\n\r\nINNER",
	"Content-Length: 00\r\n\r\nINNER",
	"Content-Length: 99999999999999999999\r\n\r\nINNER",
	"Content-Length:\r\n\r\nINNER",
	"Transfer-Encoding: chunked\r\n\r\n0;x=\"\r\nINNER",
	"Transfer-Encoding: chunked\r\n\r\n0\r\nX-Forwarded-For: 192.0.2.1\r\nX-API-Key: demo-key-2\r\n\r\nINNER",
	"Transfer-Encoding: chunked\r\n\r\n1\r\nZ\nQ\r\n0\r\n\r\nINNER",
	"Transfer-Encoding: chunked\r\n\r\n-1\r\nINNER",
	"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\nINNER",
	"Transfer-Encoding: chunked\r\n\r\n0x1\r\nZ\r\n0\r\n\r\nINNER",
	"Transfer-Encoding: chunked\n\n0\n\nINNER",
	"Content-Length: 0\n\nINNER",
	"Expect: 100-continue\r\nContent-Length: 5\r\n\r\nINNER",
	"Expect: 200-ok\r\nContent-Length: 0\r\n\r\nINNER",
	"Upgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\nINNER",
	"Connection: Content-Length\r\nContent-Length: 5\r\n\r\n12345INNER",
	"\r\nINNER",
}

// smuggle sends all of them for one client and counts what was served: never more than the limit.
func smuggle(x *target) {
	inner := shot{send: "POST /api/upload", header: alice}.text()
	served := 0
	for _, s := range smuggled {
		s = strings.NewReplacer("INNER", inner, "SIZE", fmt.Sprintf("%x", len(inner))).Replace(s)
		var statuses []int
		for _, r := range x.flood("POST /api/upload HTTP/1.1\r\nHost: test\r\n" + alice + s) {
			x.check(r.err == nil, "%.60q: the server waits for more: %v", s, r.err)
			if strings.Contains(r.body, "uploaded") {
				served++
			}
			statuses = append(statuses, r.status)
		}
		x.saw("%.60q: %v", s, statuses)
		x.check(len(statuses) > 0, "%.60q: no answer", s)
	}
	x.saw("%d served", served)
	x.check(served == 5, "%d requests of one client were served, want 5", served)
}

// slow announces a body, sends a little of it now and then, and wants to be refused and rid of long before the
// server's own timeout of 30 s.
func slow(announced string) func(*target) {
	return func(x *target) {
		x.fire(shot{send: "POST /api/upload", header: alice, times: 6, want: "5x200 429"})
		c, err := x.dial() // all of it within patience
		if err != nil {
			x.check(false, "no connection: %v", err)
			return
		}
		defer c.Close()
		request := shot{send: "POST /api/upload", header: alice + announced}.text()
		if _, err := io.WriteString(c, request); err != nil {
			x.check(false, "%v", err)
			return
		}
		ended := make(chan struct{})
		go func() { // until the connection ends
			defer close(ended)
			for _, err := io.WriteString(c, "1\r\nx\r\n"); err == nil; _, err = io.WriteString(c, "1\r\nx\r\n") {
				time.Sleep(100 * time.Millisecond)
			}
		}()
		r := c.answer(request)
		x.saw("%q: %d", announced, r.status)
		x.check(r.status == http.StatusTooManyRequests, "%q: got %d (%v), want 429", announced, r.status, r.err)
		_, err = io.Copy(io.Discard, c.in)
		timeout, ok := err.(net.Error)
		x.check(!ok || !timeout.Timeout(), "%q: the connection of a refused request is still open after %v",
			announced, patience)
		c.Close()
		<-ended
	}
}

// promptly sends refused requests with whole bodies on one connection, which must be kept.
func promptly(x *target) {
	x.fire(shot{send: "POST /api/upload", header: alice, times: 6, want: "5x200 429"})
	for _, s := range []shot{
		{send: "POST /api/upload", header: alice, body: strings.Repeat("x", 20_000)},
		{send: "POST /api/upload", header: alice + "Transfer-Encoding: chunked\r\n", body: "5\r\nhello\r\n0\r\n\r\n"},
		{send: "POST /api/upload", header: alice + "Transfer-Encoding: chunked\r\nTrailer: X-API-Key\r\n",
			body: "1\r\nx\r\n0\r\n" + first + "\r\n"},
		{send: "POST /api/upload", header: alice + "Content-Length: 0\r\n"},
	} {
		reused(s.send, s.header, s.body, 5, 0)(x)
	}
}

// unsent announces bodies that never come, and leaves.
func unsent(header string) []shot {
	return []shot{{send: "POST /api/upload", header: bob + header, times: 8, want: "5x200 3x429"}}
}

var bodies = []attack{
	{name: "requests within requests", onRedis: true, run: smuggle},
	{name: "chunked bodies", shots: []shot{
		{send: "POST /api/upload", header: alice + "Transfer-Encoding: chunked\r\n",
			body: "5\r\nhello\r\n0\r\n\r\n", times: 8, want: "5x200 3x429"},
		{send: "GET /api/search", header: alice + "Transfer-Encoding: chunked\r\n", body: "5\r\nhello\r\n0\r\n\r\n",
			times: 32, want: "30x200 2x429"},
		{send: "POST /login", header: alice, body: strings.Repeat("x", 300_000), times: 8, want: "5x200 3x429"},
	}},
	{name: "Expect: 100-continue", shots: unsent("Expect: 100-continue\r\nContent-Length: 10\r\n")},
	{name: "Expect: 100-continue for a terabyte",
		shots: unsent("Expect: 100-continue\r\nContent-Length: 1000000000000\r\n")},
	{name: "a terabyte that never comes", shots: unsent("Content-Length: 1000000000000\r\n")},
	{name: "prompt bodies keep the connection", run: promptly},
	{name: "slow bodies end the connection", run: slow("Content-Length: 100000\r\n")},
	{name: "slow chunks end the connection", slow: true, run: slow("Transfer-Encoding: chunked\r\n")},
	{name: "slow huge bodies end the connection", slow: true, run: slow("Content-Length: 1000000000\r\n")},
}
