package memstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// allowAll returns how many requests are admitted at once.
func allowAll(l *core.Limiter) (n int) {
	for l.Allow(ctx, "k").Allowed {
		n++
	}
	return n
}

// TestNoTraceInABucket: what is given back or refused brings no unit back sooner, by its units or its numbers.
func TestNoTraceInABucket(t *testing.T) {
	large := []core.Limit{core.PerMinute(1000).Using(core.Bucket)}
	for name, do := range map[string]func(l *core.Limiter){
		"a charge": func(l *core.Limiter) {
			r := l.Reserve(ctx, core.Request{Key: "k", Cost: 100_000, Charge: true})
			r.Return(ctx, 100_000)
		},
		"a charge that is settled": func(l *core.Limiter) {
			_ = l.Reserve(ctx, core.Request{Key: "k", Cost: 100_000, Charge: true}).Settle(ctx, 0)
		},
		"by a larger limit": func(l *core.Limiter) {
			l.Reserve(ctx, core.Request{Key: "k", Cost: 1, Limits: large}).Return(ctx, 1)
		},
		"refused by another": func(l *core.Limiter) {
			other := core.Must(l.Rule("other", core.Per(1, time.Hour)))
			other.Allow(ctx, "k")
			core.DecideAll(ctx, core.Pair{Limiter: l, Request: core.Request{Key: "k", Cost: 1, Limits: large}},
				core.Pair{Limiter: other, Request: core.Request{Key: "k", Cost: 1}})
		},
	} {
		s, c := newStore(memstore.MinMaxBytes)
		l, n := limiter(t, s, core.PerMinute(10).Using(core.Bucket)), 0
		for range 19 {
			n += allowAll(l)
			do(l)
			c.Add(time.Second)
		}
		if d := l.Peek(ctx, "k"); n != 13 || d.ResetAfter != 59*time.Second {
			t.Errorf("%s: %d admitted in 19 s, and %+v; want 13 and 59s", name, n, d)
		}
	}
}

// TestReturnToABucket: what came back by itself is not given back a second time, of one limit or by another.
func TestReturnToABucket(t *testing.T) {
	s, c := newStore(memstore.MinMaxBytes)
	l := limiter(t, s, core.PerMinute(10).Using(core.Bucket))
	r := l.Reserve(ctx, core.Request{Key: "k", Cost: 10})
	c.Add(54 * time.Second)
	l.AllowN(ctx, "k", 9)
	for range 10 {
		if n, err := r.Return(ctx, 1); n != 1 || err != nil {
			t.Errorf("%d count no more, %v", n, err)
		}
	}
	if n := allowAll(l); n != 1 {
		t.Errorf("%d more are admitted, want 1", n)
	}

	l = limiter(t, memstore.New(memstore.WithClock(c.Now)), core.PerSecond(10).Using(core.Bucket))
	slow := core.Must(l.WithLimits(core.PerSecond(1).Using(core.Bucket)))
	r = l.Reserve(context.Background(), core.Request{Key: "k", Cost: 2})
	c.Add(900 * time.Millisecond)
	slow.Charge(ctx, "k", 1)
	n, err := r.Return(ctx, 2)
	if used, _ := slow.Usage(ctx, "k"); n != 2 || err != nil || used[0].Used != 1 {
		t.Errorf("%d count no more, %v, and %+v", n, err, used)
	}
}

// TestBucketOfTwoPlans: requests by other numbers leave a client of the same count no more than its own.
func TestBucketOfTwoPlans(t *testing.T) {
	s, c := newStore(memstore.MinMaxBytes)
	l, n := limiter(t, s, core.PerMinute(10).Using(core.Bucket)), 0
	for range 60 {
		l.Decide(ctx, core.Request{Key: "k", Cost: 1, Limits: []core.Limit{core.PerSecond(1000).Using(core.Bucket)}})
		n += allowAll(l)
		c.Add(time.Second)
	}
	if n > 19 || n < 18 {
		t.Errorf("%d admitted by 10 a minute in a minute, want 18 or 19", n)
	}
}
