package attack_test

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// burst returns an attack of n requests at once, each on a connection of its own, of which limit must be admitted.
func burst(send, header string, n, limit int) func(*target) {
	return func(x *target) {
		var ready, wait sync.WaitGroup
		ready.Add(n)
		statuses := make([]int, n)
		request := shot{send: send, header: header}.text()
		for i := range n {
			wait.Go(func() {
				c, err := x.dial()
				ready.Done()
				if err != nil {
					return
				}
				defer c.Close()
				ready.Wait()
				_, _ = io.WriteString(c, request)
				statuses[i], _ = c.answer(request)
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
			status, _ := c.answer(request)
			statuses = append(statuses, status)
		}
		x.tally(fmt.Sprintf("%d times %s in one piece", n, send), statuses, limit)
	}
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
	{name: "200 at once on a limit of 5", run: burst("POST /api/upload", alice, 200, 5)},
	{name: "200 at once on a limit of 100", run: burst("GET /api/data", alice, 200, 100)},
	{name: "a coarse limit of 1000", run: all(pipelined("GET /api/status", alice, 900, 900),
		burst("GET /api/status", alice, 200, 100))},
	{name: "200 logins at once", run: burst("POST /login", bob, 200, 5)},
	{name: "pipelines", run: all(pipelined("GET /api/search", alice, 200, 30),
		pipelined("POST /api/upload", bob, 50, 5), pipelined("HEAD /api/data", carol, 300, 100))},
	{name: "GET and HEAD share a limit", shots: []shot{
		{send: "HEAD /api/search", header: alice, times: 20, want: "20x200"},
		{send: "GET /api/search", header: alice, times: 12, want: "10x200 2x429"},
		{send: "HEAD /api/search", header: alice, times: 2, want: "2x429"},
	}},
}
