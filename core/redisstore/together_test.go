package redisstore

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/redistest"
)

// TestTogether: requests by two limits in parallel exceed neither, and what one refuses, also from memory, the other
// does not count.
func TestTogether(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	const callers, each, all = 40, 3, 30
	for name, options := range map[string][]Option{"plain": nil, "leased": {WithLease(100, 100*time.Millisecond)}} {
		s := New(rdb, options...)
		limiterOf := func(rule string, n int64) *core.Limiter {
			return core.Must(core.New(core.Config{
				Name: name + rule, Store: s, Limits: []core.Limit{core.Per(n, core.MaxWindow)},
				OnStoreError: core.FailClosed, Timeout: 20 * time.Second,
			}))
		}
		perClient, global := limiterOf("each", each), limiterOf("all", all)
		together := func(client string) (core.Decision, int) {
			return core.Together(ctx,
				core.Pair{Limiter: perClient, Request: core.Request{Key: client, Cost: 1}},
				core.Pair{Limiter: global, Request: core.Request{Key: "all", Cost: 1}})
		}
		used := func(l *core.Limiter, client string) int64 {
			t.Helper()
			uses, err := l.Usage(ctx, client)
			if err != nil {
				t.Fatal(err)
			}
			return uses[0].Used
		}
		admitted := make([]int64, callers)
		var group sync.WaitGroup
		for i := range callers {
			group.Go(func() {
				for range 10 {
					if d, _ := together(fmt.Sprint(i)); d.Err != nil {
						t.Error(d.Err)
					} else if d.Allowed {
						admitted[i]++
					}
				}
			})
		}
		group.Wait()
		sum := int64(0)
		for i, n := range admitted {
			if got := used(perClient, fmt.Sprint(i)); got != n || n > each {
				t.Errorf("%s: client %d has %d used and %d admitted, want at most %d", name, i, got, n, each)
			}
			sum += n
		}
		before := used(global, "all")
		if before > all || before < sum || before != sum && options == nil { // units of a lease are used
			t.Errorf("%s: %d used and %d admitted, want at most %d", name, before, sum, all)
		}
		perClient.AllowN(ctx, "spent", each)
		for range 100 {
			d, i := together("spent")
			refuses := i == 0 && d.Limit.Requests == each || i == 1 && d.Limit.Requests == all && before == all
			if d.Allowed || !refuses || d.RetryAfter <= 0 {
				t.Fatalf("%s: %+v of pair %d, want a refusal by the first or by a limit of %d of %d", name, d, i, before, all)
			}
		}
		if got := used(global, "all"); got != before {
			t.Errorf("%s: %d used after refusals by the other limit, want %d", name, got, before)
		}
	}
}
