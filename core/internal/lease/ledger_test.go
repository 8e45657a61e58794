package lease

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/fakeserver"
	"github.com/sashlimit/sash/core/internal/model"
)

// TestOverridden: a charge, or a request by limits of its own, is the next ledger's, whatever is leased.
func TestOverridden(t *testing.T) {
	inBubble(t, 50, func(t *testing.T, s *fixture) {
		s.acquire(t)
		left, used := s.unspent(), s.used()
		ask := core.Ask{Key: "client", Cost: 1, Override: &core.Override{Charge: true}}
		d := s.rule.Take(t.Context(), ask)
		if d.Err != nil || d.Source != core.SourceCounted || s.unspent() != left || s.used() != used+1 {
			t.Errorf("%+v: %d unspent and %d held, want %d and %d", d, s.unspent(), s.used(), left, used+1)
		}
	})
}

// TestFullShard: a client without an entry in a full shard goes to the next ledger.
func TestFullShard(t *testing.T) {
	inBubble(t, 50, func(t *testing.T, s *fixture) {
		_, shard := s.rule.holder("client")
		for i := range uint64(shardSize) {
			shard.byHolder[holder{client: [2]uint64{i}}] = &lease{left: 1, until: time.Now().Add(time.Hour)}
		}
		for n := range 20 {
			if d := s.allow(t, 1); !d.Allowed || d.Source != core.SourceCounted || s.Scripts != n+1 {
				t.Fatalf("%+v after %d scripts, want %d", d, s.Scripts, n+1)
			}
		}
	})
}

// TestResetEndsLeases: a reset ends the leases of the client under all rules, and of no other client.
func TestResetEndsLeases(t *testing.T) {
	inBubble(t, 50, func(t *testing.T, s *fixture) {
		other := &ledger{s.rule.table, s.rule.terms, s.store}
		lease := func(l *ledger, client string) {
			holder, shard := l.holder(client)
			shard.add(holder, time.Now()).left = 7
		}
		left := func(l *ledger, client string) bool { return l.entry(client) != nil }
		neighbour := "a"
		for _, own := s.rule.holder("client"); ; neighbour += "a" {
			if _, shard := s.rule.holder(neighbour); shard == own {
				break
			}
		}
		lease(s.rule, "client")
		lease(other, "client")
		lease(s.rule, neighbour)
		if err := s.rule.Reset(t.Context(), "client"); err != nil {
			t.Error(err)
		}
		if left(s.rule, "client") || left(other, "client") || !left(s.rule, neighbour) {
			t.Errorf("leases by the rule %v, by another %v, of another client %v; want only the last",
				left(s.rule, "client"), left(other, "client"), left(s.rule, neighbour))
		}
	})
}

// stub is a ledger with one answer. It counts its calls.
type stub struct {
	core.Ledger
	d     core.Decision
	times int
}

func (l *stub) Take(context.Context, core.Ask) core.Decision {
	l.times++
	return l.d
}

// TestRefusals: a refusal tells until when the client is refused, unless that is known and the refusal is cached.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		known  bool
		source core.Source
		want   time.Duration
	}{
		{false, core.SourceCounted, 2}, {false, core.SourceCached, 2},
		{true, core.SourceCounted, 2}, {true, core.SourceCached, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, _ := process(fakeserver.Link{}, Terms{50, time.Second})
			l.Ledger = &stub{d: core.Decision{RetryAfter: 2 * time.Second, Source: c.source}}
			holder, shard := l.holder("client")
			e, now := shard.add(holder, time.Now()), time.Now()
			if c.known {
				e.retry = now.Add(time.Second)
			}
			d := l.Take(t.Context(), core.Ask{Key: "client", Cost: 1})
			if got := e.retry.Sub(now); d.Allowed || d.Err != nil || got != c.want*time.Second {
				t.Errorf("%+v: %+v, refused for %v", c, d, got)
			}
		})
	}
}

// TestLate: the next ledger may answer a late request, and a failed renewal is not repeated.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := process(fakeserver.Link{}, Terms{50, time.Second})
		holder, shard := l.holder("client")
		for err, want := range map[error]core.Stage{nil: core.StageUnknown, fakeserver.ErrLost: core.StageLease} {
			l.Ledger = &stub{d: core.Decision{Allowed: true, Err: err}}
			ask := core.Ask{Key: "client", Cost: 1, Timeout: 1}
			q := &request{Ask: ask, shard: shard, holder: holder, deadline: time.Now()}
			got := l.takeDirect(t.Context(), q, true).Err
			if !errors.Is(got, err) || got != nil && core.StageOf(got) != want {
				t.Errorf("%v at the stage %q, want %v at %q", got, core.StageOf(got), err, want)
			}
			if got := l.takeDirect(t.Context(), q, false).Err; got != err { // it has not waited
				t.Errorf("%v, want %v as it is", got, err)
			}
		}
		fails := &stub{d: core.Decision{Remaining: 10, Err: fakeserver.ErrLost}}
		l.Ledger = fails
		shard.add(holder, time.Now()).admitted = 100
		err := l.Take(t.Context(), core.Ask{Key: "client", Cost: 1}).Err
		if !errors.Is(err, fakeserver.ErrLost) || fails.times != 1 {
			t.Errorf("%v after %d questions, want 1", err, fails.times)
		}
	})
}

// TestReturnToLease: a unit goes back to the lease that it came from, while that lasts, and never to a later one, where
// it would count for too short a time. A unit that the server has counted goes back to the server.
func TestReturnToLease(t *testing.T) {
	inBubble(t, 50, func(t *testing.T, s *fixture) {
		reserve := func() *core.Reservation {
			return s.limiter.Reserve(t.Context(), core.Request{Key: "client", Cost: 1})
		}
		if n, err := reserve().Return(t.Context(), 1); n != 1 || err != nil || s.used() != 0 {
			t.Errorf("to the server: %d, %v, which counts %d, want 0", n, err, s.used())
		}
		s.acquire(t)
		r := reserve()
		left := s.unspent()
		n, err := r.Return(t.Context(), 1)
		if r.Decision.Source != core.SourceLeased || n != 1 || err != nil || s.unspent() != left+1 {
			t.Fatalf("%+v: %d, %v, %d unspent, want %d", r.Decision, n, err, s.unspent(), left+1)
		}
		old := reserve()
		s.drain(t)
		s.acquire(t) // a new one
		left = s.unspent()
		if n, err := old.Return(t.Context(), 1); n != 0 || err != nil || s.unspent() != left {
			t.Errorf("from an earlier lease: %d, %v, %d unspent, want %d", n, err, s.unspent(), left)
		}
		late := reserve()
		time.Sleep(5 * time.Second)
		if n, err := late.Return(t.Context(), 1); late.Decision.Source != core.SourceLeased || n != 0 || err != nil {
			t.Errorf("after the end: %d, %v", n, err)
		}
		s.warmUp(t, 1)
		s.acquire(t)
		old = reserve()
		later := reserve() // a reservation gives back once
		if err := s.limiter.Reset(t.Context(), "client"); err != nil {
			t.Fatal(err)
		}
		if n, err := old.Return(t.Context(), 1); old.Decision.Source != core.SourceLeased || n != 0 || err != nil {
			t.Errorf("after a reset: %d, %v", n, err)
		}
		s.Client = model.Client{} // and its clock is stepped back
		s.Skew -= 10 * time.Second
		s.acquire(t)
		left = s.unspent()
		if n, err := later.Return(t.Context(), 1); n != 0 || err != nil || s.unspent() != left {
			t.Errorf("from a lease whose times were later: %d, %v, %d unspent, want %d", n, err, s.unspent(), left)
		}
	})
}

// TestReturnMeanwhile: a unit that was spent while the next lease was on its way goes to none, and one that was spent
// right after goes back to the next.
func TestReturnMeanwhile(t *testing.T) {
	inBubble(t, 50, func(t *testing.T, s *fixture) {
		for s.unspent() < 10 {
			s.warmUp(t, 1)
		}
		s.allow(t, s.unspent()-1)
		s.delay = 10 * time.Millisecond
		reserve := func(cost int64) *core.Reservation {
			return s.limiter.Reserve(t.Context(), core.Request{Key: "client", Cost: cost})
		}
		var group sync.WaitGroup
		group.Go(func() { reserve(2) })
		time.Sleep(2*s.delay - time.Millisecond)
		old := reserve(1)
		group.Wait()
		next := reserve(1)
		if old.Decision.Source != core.SourceLeased || next.Decision.Source != core.SourceLeased {
			t.Fatalf("%+v, %+v", old.Decision, next.Decision)
		}
		if n, err := old.Return(t.Context(), 1); n != 0 || err != nil {
			t.Errorf("from the lease before: %d, %v, want 0", n, err)
		}
		if n, err := next.Return(t.Context(), 1); n != 1 || err != nil {
			t.Errorf("from the lease that is there: %d, %v, want 1", n, err)
		}
	})
}
