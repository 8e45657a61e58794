package lease

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/fakeserver"
)

// fake is what is behind the leases of one process.
type fake struct {
	fakeserver.Link
	silent atomic.Bool // no reply comes to a renewal
}

func (f *fake) Take(ctx context.Context, ask core.Ask) core.Decision {
	silent := ask.Override != nil && f.silent.Load()
	d := f.Link.Take(ctx, ask)
	if silent {
		ctx, cancel := ask.Context(ctx)
		defer cancel()
		<-ctx.Done()
		return core.Decision{Err: context.Cause(ctx)}
	}
	return d
}

// process returns a process that leases, and what is behind its leases.
func process(k fakeserver.Link, size int64, lifetime time.Duration) (*ledger, *fake) {
	f, terms := &fake{Link: k}, Terms{size, lifetime}
	return &ledger{NewTable(terms), terms, f}, f
}

// bound is a store whose counts are there already.
type bound struct{ core.Ledger }

func (b bound) Bind(core.Binding) (core.Ledger, error) { return b.Ledger, nil }

func limiter(t *testing.T, l *ledger, limits ...core.Limit) *core.Limiter {
	t.Helper()
	limiter, err := core.New(core.Config{Store: bound{l}, Limits: limits, OnStoreError: core.FailClosed})
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

// scene is a server, a process that leases from it, and the way between them.
type scene struct {
	*fakeserver.Server
	rule    *ledger
	store   *fake
	limiter *core.Limiter
	way     time.Duration // one way; it may be changed
}

// newScene returns a scene with leases of up to size units for 5 s.
func newScene(t *testing.T, limit core.Limit, size int64) *scene {
	t.Helper()
	return newSceneOf(t, Terms{size, 5 * time.Second}, limit)
}

func newSceneOf(t *testing.T, terms Terms, limits ...core.Limit) *scene {
	t.Helper()
	s := &scene{Server: fakeserver.New(0, limits...), way: 100 * time.Microsecond}
	k := fakeserver.Link{Server: s.Server, Delay: func() time.Duration { return s.way }}
	s.rule, s.store = process(k, terms.Size, terms.Lifetime)
	s.limiter = limiter(t, s.rule, limits...)
	return s
}

// allow makes a request of the client.
func (s *scene) allow(t *testing.T, cost int64) core.Decision {
	return s.limiter.AllowN(t.Context(), "client", cost)
}

// take makes a request of cost 1 of the client, without a limiter.
func (s *scene) take(ctx context.Context, timeout time.Duration) core.Decision {
	return s.rule.Take(ctx, core.Ask{Key: "client", Cost: 1, Timeout: timeout})
}

// warm makes requests until a decision needs no script, the given number of times, and returns how many.
func (s *scene) warm(t *testing.T, times int) (admitted int64) {
	t.Helper()
	for range times {
		before := s.Scripts - 1
		for n := 0; s.Scripts > before; n++ {
			if before = s.Scripts; n == 1000 {
				t.Fatal("never leased")
			}
			if d := s.allow(t, 1); !d.Allowed {
				t.Fatalf("%+v", d)
			}
			admitted++
		}
	}
	return admitted
}

// leased makes requests until the client has a lease with something left.
func (s *scene) leased(t *testing.T) {
	t.Helper()
	for s.unspent() == 0 {
		s.warm(t, 1)
	}
}

// empty spends what is left of the client's lease, and returns how much that was.
func (s *scene) empty(t *testing.T) int64 {
	t.Helper()
	left := s.unspent()
	if d := s.allow(t, left); !d.Allowed || s.unspent() != 0 {
		t.Fatalf("%+v, %d left", d, s.unspent())
	}
	return left
}

// unspent is what is left of the client's lease.
func (s *scene) unspent() int64 {
	holder, shard := s.rule.holder("client")
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if e := shard.byHolder[holder]; e != nil {
		return e.left
	}
	return 0
}

// held returns how many units the server holds.
func (s *scene) held() int64 { return s.Client.Usage(s.Limits, time.UnixMicro(s.Now()))[0].Used }
