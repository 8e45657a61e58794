package attack_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// burst returns an attack of n requests at once, each on a connection of its own, of which limit must be admitted. In
// the header # stands for the number of the request.
func burst(send, header string, n, limit int) func(*target) {
	return func(x *target) {
		var ready, wait sync.WaitGroup
		ready.Add(n)
		statuses := make([]int, n)
		for i := range n {
			wait.Go(func() {
				c, err := x.dial()
				ready.Done()
				if err != nil {
					return
				}
				defer c.Close()
				request := shot{send: send, header: strings.ReplaceAll(header, "#", strconv.Itoa(i))}.text()
				ready.Wait()
				_, _ = io.WriteString(c, request)
				statuses[i] = c.answer(request).status
			})
		}
		wait.Wait()
		x.tally(fmt.Sprintf("%d times %s at once", n, send), statuses, limit)
	}
}

// tally checks that of the statuses limit are 200 and all others 429.
func (x *target) tally(what string, statuses []int, limit int) {
	byStatus := map[int]int{}
	for _, s := range statuses {
		byStatus[s]++
	}
	x.saw("%s: %v", what, byStatus)
	x.check(byStatus[200] == limit && byStatus[429] == len(statuses)-limit,
		"%s: got %v by status, want %d times 200 and %d times 429", what, byStatus, limit, len(statuses)-limit)
}

// pipelined sends all requests on one connection in one piece, and reads the answers after that.
func pipelined(send, header string, n, limit int) func(*target) {
	return func(x *target) {
		c, err := x.dial()
		if err != nil {
			x.check(false, "no connection: %v", err)
			return
		}
		defer c.Close()
		request := shot{send: send, header: header}.text()
		go func() { _, _ = io.WriteString(c, strings.Repeat(request, n)) }()
		var statuses []int
		for range n {
			statuses = append(statuses, c.answer(request).status)
		}
		x.tally(fmt.Sprintf("%d times %s in one piece", n, send), statuses, limit)
	}
}

// reused sends the requests one after the other on one connection, which the server must keep.
func reused(send, header, body string, n, limit int) func(*target) {
	return func(x *target) {
		c, err := x.dial()
		if err != nil {
			x.check(false, "no connection: %v", err)
			return
		}
		defer c.Close()
		request := shot{send: send, header: header, body: body}.text()
		var statuses []int
		for range n {
			_, _ = io.WriteString(c, request)
			r := c.answer(request)
			x.check(r.err == nil && !r.close, "%s: the server has given up the connection: %v", send, r.err)
			statuses = append(statuses, r.status)
		}
		x.tally(fmt.Sprintf("%d times %s on one connection", n, send), statuses, limit)
	}
}

// waited spends a log and a coarse log, waits as long as it is told to, and comes again.
func waited(x *target) {
	x.fire(shot{send: "POST /api/upload", header: alice, times: 5, want: "5x200"})
	pipelined("GET /api/status", alice, 1000, 1000)(x)
	sends, wait := []string{"POST /api/upload", "GET /api/status"}, 0
	for _, send := range sends {
		refused := x.ask(shot{send: send, header: alice}.text())
		x.check(refused.status == http.StatusTooManyRequests, "%s: got %d, want 429", send, refused.status)
		wait = max(wait, refused.number("Retry-After"))
	}
	sleep(wait)
	x.fire(shot{send: sends[0], header: alice, want: "200"})
	x.fire(shot{send: sends[1], header: alice, want: "200"})
}

// all returns an attack of several parts, one after the other.
func all(parts ...func(*target)) func(*target) {
	return func(x *target) {
		for _, part := range parts {
			part(x)
		}
	}
}

var bursts = []attack{
	{name: "200 at once on a limit of 5", onRedis: true, run: burst("POST /api/upload", alice, 200, 5)},
	{name: "200 at once on a limit of 30", onRedis: true, run: burst("GET /api/search", first, 200, 30)},
	{name: "200 at once on a limit of 100", onRedis: true, run: burst("GET /api/data", alice, 200, 100)},
	{name: "a coarse limit of 1000", onRedis: true, run: all(pipelined("GET /api/status", alice, 900, 900),
		burst("GET /api/status", alice, 200, 100), reused("HEAD /api/status", alice, "", 20, 0))},
	{name: "200 logins at once", onRedis: true, run: burst("POST /login", bob, 200, 5)},
	{name: "pipelines", onRedis: true, run: all(pipelined("GET /api/search", alice, 200, 30),
		pipelined("POST /api/upload", bob, 50, 5), pipelined("HEAD /api/data", carol, 300, 100))},
	{name: "connections that are kept", run: all(reused("GET /api/search", alice, "", 60, 30),
		reused("POST /api/upload", alice, "a prompt body", 20, 5),
		reused("POST /login", bob, strings.Repeat("x", 10_000), 20, 5))},
	{name: "GET and HEAD share a limit", shots: []shot{
		{send: "HEAD /api/search", header: alice, times: 20, want: "20x200"},
		{send: "GET /api/search", header: alice, times: 12, want: "10x200 2x429"},
		{send: "HEAD /api/search", header: alice, times: 2, want: "2x429"},
	}},
	{name: "old clients", shots: []shot{
		{send: "GET /api/search HTTP/1.0", header: alice, times: 40, want: "30x200 10x429"},
		{send: "POST /api/upload HTTP/1.0", header: alice + "Connection: keep-alive\r\n", times: 8,
			want: "5x200 3x429"},
		{send: "POST /login HTTP/1.0", header: alice + "Content-Length: 0\r\n", times: 7, want: "5x200 2x429"},
	}},
	{name: "other protocols", shots: []shot{
		{send: "POST /api/upload",
			header: bob + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n" +
				"HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n",
			times: 8, want: "5x200 3x429"},
		{send: "GET /api/data HTTP/0.9", want: "505"},
		{send: "GET /api/data HTTP/2.0", want: "505"},
		{send: "GET /api/data HTTP/3.0", want: "505"},
		{send: "GET /api/data HTTP/1.2", header: carol, want: "200"},
		{send: "PRI * HTTP/2.0", body: "SM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", want: "404"},
		{send: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 HTTP/1.1", want: "400"},
	}},
	{name: "the client that waits is admitted", slow: true, onRedis: true, run: waited},
}
