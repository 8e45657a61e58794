package redisstore_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// TestPlansTogether: requests with limits of their own are decided together with others, each
// by its own limits: 64 goroutines get what their plans allow, no more and no less.
func TestPlansTogether(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := redisstore.New(server.Client(t))
	own := []core.Limit{core.PerHour(10), core.PerDay(1000).Using(core.SlidingCounter)}
	l := limiter(t, core.Config{Store: store, Limits: own, Timeout: patient, OnStoreError: core.FailClosed})
	const goroutines, most = 64, 20
	var shared atomic.Int64
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 4))
			plan := []core.Limit{core.PerHour(1 + int64(g)%most), own[1]}
			high := []core.Limit{core.PerHour(most), own[1]}
			client := core.Request{Key: fmt.Sprint("client ", g), Cost: 1, Limits: plan}
			if g%8 == 0 {
				client.Limits, plan = nil, own
			}
			var admitted, refused, used int64
			for refused < 5 {
				var d core.Decision
				switch rng.IntN(4) {
				case 0:
					used++
					d = l.Charge(ctx, fmt.Sprint("other ", g), 1)
					if !d.Allowed || d.Remaining != max(0, 10-used) {
						t.Errorf("a charge: %+v", d)
						return
					}
				case 1:
					d = l.Decide(ctx, core.Request{Key: "shared", Cost: 1, Limits: high})
					if d.Err != nil || d.Limit.Requests != most && d.Limit.Requests != 1000 {
						t.Errorf("by the high limit: %+v", d)
						return
					}
					if d.Allowed {
						shared.Add(1)
					}
				case 2:
					if d = l.Allow(ctx, "shared"); d.Err != nil {
						t.Error(d.Err)
						return
					}
					if d.Allowed {
						shared.Add(1)
					}
				default:
					if d = l.Decide(ctx, client); d.Allowed != (admitted < plan[0].Requests) || d.Err != nil {
						t.Errorf("%v after %d: %+v", plan, admitted, d)
						return
					}
					if !d.Allowed {
						refused++
						continue
					}
					admitted++
				}
			}
		})
	}
	group.Wait()
	for range most { // what is left of the high limit
		if l.Decide(ctx, core.Request{Key: "shared", Cost: 1, Limits: []core.Limit{core.PerHour(most), own[1]}}).Allowed {
			shared.Add(1)
		}
	}
	if n := shared.Load(); n != most {
		t.Errorf("%d requests of the shared client were admitted, want %d", n, most)
	}
}

// TestVerbsWithLease: a charge and a request with limits of its own find the units of a lease
// counted, and add to them: what the lease has left is all that is admitted afterwards.
func TestVerbsWithLease(t *testing.T) {
	t.Parallel()
	const limit, leased = 2000, 200
	store := redisstore.New(redistest.Start(t).Client(t), redisstore.WithLease(1000, time.Minute))
	l := limiter(t, core.Config{
		Store: store, Limits: []core.Limit{core.PerHour(limit)}, Timeout: patient, OnStoreError: core.FailClosed,
	})
	admitted := int64(0)
	for held := false; !held; admitted++ {
		d := l.Allow(ctx, "k")
		if !d.Allowed {
			t.Fatalf("no lease after %d requests: %+v", admitted, d)
		}
		held = d.Source == core.Leased
	}
	plan := core.Request{Key: "k", Cost: 1, Limits: []core.Limit{core.PerHour(1)}}
	if d := l.Decide(ctx, plan); d.Allowed || d.Err != nil || d.Source == core.Leased {
		t.Errorf("by a limit of 1: %+v", d)
	}
	plan.Limits[0].Requests = 2 * limit
	if d := l.Decide(ctx, plan); !d.Allowed || d.Remaining > 2*limit-admitted-1 {
		t.Errorf("by a higher limit, after %d requests: %+v", admitted, d)
	}
	if d := l.Charge(ctx, "k", limit); !d.Allowed || d.Remaining != 0 {
		t.Errorf("a charge: %+v", d)
	}
	after := 0
	for l.Allow(ctx, "k").Allowed {
		after++
	}
	if after > leased {
		t.Errorf("%d requests were admitted after the limit was charged, and a lease is of %d", after, leased)
	}
}
