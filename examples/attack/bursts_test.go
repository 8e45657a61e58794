package attack_test

import (
	"io"
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
		byStatus := map[int]int{}
		for _, s := range statuses {
			byStatus[s]++
		}
		x.saw("%d times %s at once: %v", n, send, byStatus)
		x.check(byStatus[200] == limit && byStatus[429] == n-limit,
			"%d times %s at once: got %v by status, want %d times 200 and the rest 429", n, send, byStatus, limit)
	}
}

var bursts = []attack{
	{name: "200 at once on a limit of 5", run: burst("POST /api/upload", alice, 200, 5)},
	{name: "200 at once on a limit of 100", run: burst("GET /api/data", alice, 200, 100)},
	{name: "200 logins at once", run: burst("POST /login", bob, 200, 5)},
	{name: "GET and HEAD share a limit", shots: []shot{
		{send: "HEAD /api/search", header: alice, times: 20, want: "20x200"},
		{send: "GET /api/search", header: alice, times: 12, want: "10x200 2x429"},
		{send: "HEAD /api/search", header: alice, times: 2, want: "2x429"},
	}},
}
