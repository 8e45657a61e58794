package inflight

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// limit counts the units of one key.
type limit struct {
	mu         sync.Mutex
	left, asks int
}

func reservation(allowed bool, retry time.Duration) *core.Reservation {
	d := core.Decision{Allowed: allowed, Limit: core.PerHour(5), RetryAfter: retry}
	return &core.Reservation{Decision: d}
}

func (l *limit) ask() *core.Reservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asks++
	if l.left == 0 {
		return reservation(false, time.Hour)
	}
	l.left--
	return reservation(true, 0)
}

func (l *limit) giveBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left++
}

// serve has n requests made at once, of which each admitted one takes a while. It returns the decisions and how long
// all took.
func serve(n int, s *Set, l *limit, back bool, each time.Duration) (all []core.Decision, took time.Duration) {
	all = make([]core.Decision, n)
	start := time.Now()
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() {
			all[i] = s.Reserve(context.Background(), "k", l.ask).Decision
			if all[i].Allowed {
				time.Sleep(each)
				if back {
					l.giveBack()
				}
				s.Done("k", back)
			}
		})
	}
	group.Wait()
	return all, time.Since(start)
}

// count returns how many of the decisions admit, and how many refuse for an hour and for a Moment.
func count(all []core.Decision) (admitted, hour, moment int) {
	for _, d := range all {
		switch {
		case d.Allowed:
			admitted++
		case d.RetryAfter == time.Hour:
			hour++
		case d.RetryAfter == Moment:
			moment++
		}
	}
	return admitted, hour, moment
}

func TestReserve(t *testing.T) {
	for _, c := range []struct {
		name                   string
		requests               int
		back                   bool
		each, wait             time.Duration
		admitted, hour, moment int
		took                   time.Duration
		asks                   int // at most
	}{
		// One ask for each, and two for each unit that comes back: of the request that gets it, and of the next.
		{"all give back", 50, true, 50 * time.Millisecond, Moment, 50, 0, 0, 500 * time.Millisecond, 150},
		{"all give back, one after the other", 50, true, 700 * time.Millisecond, Moment, 50, 0, 0, 7 * time.Second, 150},
		{"none gives back", 1000, false, 700 * time.Millisecond, Moment, 5, 995, 0, 700 * time.Millisecond, 1000},
		{"all are slow", 1000, false, 3 * time.Second, Moment, 5, 0, 995, 3 * time.Second, 1000},
		{"all are slow and give back, without a bound", 50, true, 3 * time.Second, 0, 50, 0, 0, 30 * time.Second, 150},
		{"all are slow, without a bound", 1000, false, 3 * time.Second, 0, 5, 995, 0, 3 * time.Second, 1000},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := Set{MaxWait: c.wait}
			l := limit{left: 5}
			all, took := serve(c.requests, &s, &l, c.back, c.each)
			admitted, hour, moment := count(all)
			if admitted != c.admitted || hour != c.hour || moment != c.moment || took != c.took {
				t.Errorf("%s: got %d admitted, %d refused for an hour and %d for a moment, in %v, want %d, %d, %d, in %v",
					c.name, admitted, hour, moment, took, c.admitted, c.hour, c.moment, c.took)
			}
			if l.asks > c.asks || len(s.keys) > 0 {
				t.Errorf("%s: got %d asks and %d keys in the end, want at most %d, and 0", c.name, l.asks, len(s.keys), c.asks)
			}
		})
	}
}

// TestReserveAtOnce: a request does not wait where that is of no use, and is told what the limiter has said.
func TestReserveAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Set{MaxWait: Moment}
		s.Reserve(t.Context(), "k", func() *core.Reservation { return reservation(true, 0) })
		for name, want := range map[string]core.Decision{
			"soon":           reservation(false, Moment).Decision,
			"never":          reservation(false, core.Never).Decision,
			"no store":       {RetryAfter: time.Hour, Err: core.ErrStore},
			"another client": reservation(false, time.Hour).Decision,
		} {
			key := "k"
			if name == "another client" {
				key = name
			}
			start := time.Now()
			r := s.Reserve(t.Context(), key, func() *core.Reservation { return &core.Reservation{Decision: want} })
			if r.Decision != want || time.Since(start) != 0 {
				t.Errorf("%s: got %+v after %v, want %+v at once", name, r.Decision, time.Since(start), want)
			}
		}
	})
}

// TestReserveEnds: a client that leaves waits no longer, and an ask that panics is not under way.
func TestReserveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Set
		l := limit{left: 1}
		s.Reserve(t.Context(), "k", l.ask)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		start := time.Now()
		if r := s.Reserve(ctx, "k", l.ask); r.Decision.Allowed || time.Since(start) != 30*time.Millisecond {
			t.Errorf("got %+v after %v, want a refusal when the client leaves", r.Decision, time.Since(start))
		}
		s.Done("k", false)
		func() {
			defer func() { _ = recover() }()
			s.Reserve(t.Context(), "k", func() *core.Reservation { panic("observer") })
		}()
		if len(s.keys) > 0 {
			t.Errorf("got %d keys, want 0", len(s.keys))
		}
	})
}

// TestAskIsToldOnce: the observer hears once of a request that waits: that it was admitted in the end, or that it was
// refused, with the RetryAfter that the client gets.
// Where it is Unreported, no admission counts as a request.
func TestAskIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		l := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(1)},
			Observer: core.ObserverFunc(func(_ context.Context, e core.Event) {
				told = append(told, fmt.Sprintf("%s %v %v %v", e.Key, e.Decision.Allowed, e.Decision.RetryAfter, e.Peek))
			})}))
		s := Set{MaxWait: Moment}
		request := core.Request{Key: "k", Cost: 1}
		first := s.Ask(t.Context(), l, request)
		go func() {
			time.Sleep(time.Millisecond)
			first.Return(context.Background(), 1)
			s.Done("k", true)
		}()
		s.Ask(t.Context(), l, request)
		s.Ask(t.Context(), l, request)
		request.Unreported = true
		s.Ask(t.Context(), l, request)
		request.Key = "other"
		s.Ask(t.Context(), l, request)
		want := []string{"k true 0s false", "k true 0s false", "k false 1s false", "k false 1s false", "other true 0s true"}
		if !slices.Equal(told, want) {
			t.Errorf("the observer heard %q, want %q", told, want)
		}
	})
}
