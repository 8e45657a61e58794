package lease

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/fakeserver"
)

// fake is the store behind the leases of one process.
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

// process returns the ledger of a process that leases, and its store.
func process(k fakeserver.Link, terms Terms) (*ledger, *fake) {
	f := &fake{Link: k}
	return &ledger{NewTable(terms), terms, f}, f
}

// boundStore is a store with one ledger for all rules.
type boundStore struct{ core.Ledger }

func (b boundStore) Bind(core.Binding) (core.Ledger, error) { return b.Ledger, nil }

// fixture is a server, a process that leases from it, and the link between them.
type fixture struct {
	*fakeserver.Server
	rule    *ledger
	store   *fake
	limiter *core.Limiter
	delay   time.Duration // of the link, one way; tests change it
}

// inBubble calls test with a fixture whose leases are of up to size units for 5 s.
func inBubble(t *testing.T, size int64, test func(t *testing.T, s *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, newFixture(Terms{size, 5 * time.Second}, core.Per(100_000, time.Minute)))
	})
}

func newFixture(terms Terms, limits ...core.Limit) *fixture {
	s := &fixture{Server: fakeserver.New(0, limits...), delay: 100 * time.Microsecond}
	k := fakeserver.Link{Server: s.Server, Delay: func() time.Duration { return s.delay }}
	s.rule, s.store = process(k, terms)
	config := core.Config{Store: boundStore{s.rule}, Limits: limits, OnStoreError: core.FailClosed}
	s.limiter = core.Must(core.New(config))
	return s
}

// allow makes a request of the client.
func (s *fixture) allow(t *testing.T, cost int64) core.Decision {
	return s.limiter.AllowN(t.Context(), "client", cost)
}

// take makes a request of cost 1 of the client, without a limiter.
func (s *fixture) take(ctx context.Context, timeout time.Duration) core.Decision {
	return s.rule.Take(ctx, core.Ask{Key: "client", Cost: 1, Timeout: timeout})
}

// warmUp makes requests until a decision needs no script, the given number of times, and returns their number.
func (s *fixture) warmUp(t *testing.T, times int) (admitted int64) {
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

// acquire makes requests until the client has a lease with unspent units.
func (s *fixture) acquire(t *testing.T) {
	t.Helper()
	for s.unspent() == 0 {
		s.warmUp(t, 1)
	}
}

// drain spends the rest of the client's lease and returns its units.
func (s *fixture) drain(t *testing.T) int64 {
	t.Helper()
	left := s.unspent()
	if d := s.allow(t, left); !d.Allowed || s.unspent() != 0 {
		t.Fatalf("%+v, %d left", d, s.unspent())
	}
	return left
}

// entry returns the entry of a client, or nil.
func (l *ledger) entry(client string) *lease {
	holder, shard := l.holder(client)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	return shard.byHolder[holder]
}

// unspent returns the unspent units of the client's lease, which is not renewed meanwhile.
func (s *fixture) unspent() int64 {
	if e := s.rule.entry("client"); e != nil {
		return e.left
	}
	return 0
}

// used returns the number of units that the server counts.
func (s *fixture) used() int64 { return s.Client.Usage(s.Limits, time.UnixMicro(s.Now()))[0].Used }
