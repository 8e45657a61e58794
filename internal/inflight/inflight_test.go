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
	mu               sync.Mutex
	remaining, tries int
}

func reservation(allowed bool, retry time.Duration) *core.Reservation {
	d := core.Decision{Allowed: allowed, Limit: core.PerHour(5), RetryAfter: retry}
	return &core.Reservation{Decision: d}
}

func (l *limit) reserve() *core.Reservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tries++
	if l.remaining == 0 {
		return reservation(false, time.Hour)
	}
	l.remaining--
	return reservation(true, 0)
}

func (l *limit) returnUnit() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remaining++
}

// serve makes n requests at once. Each admitted one lasts for duration, and gives its unit back if returned is true. It
// returns the decisions, and the time until all requests have ended.
func serve(n int, s *Set, l *limit, returned bool, duration time.Duration) ([]core.Decision, time.Duration) {
	all := make([]core.Decision, n)
	start := time.Now()
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() {
			all[i] = s.reserve(context.Background(), "k", l.reserve).Decision
			if all[i].Allowed {
				time.Sleep(duration)
				if returned {
					l.returnUnit()
				}
				s.Done("k", returned)
			}
		})
	}
	group.Wait()
	return all, time.Since(start)
}

// count returns the numbers of admissions, and of refusals for an hour and for a RetryInterval.
func count(all []core.Decision) (admitted, hour, interval int) {
	for _, d := range all {
		switch {
		case d.Allowed:
			admitted++
		case d.RetryAfter == time.Hour:
			hour++
		case d.RetryAfter == RetryInterval:
			interval++
		}
	}
	return admitted, hour, interval
}

func TestReserve(t *testing.T) {
	for _, c := range []struct {
		name                     string
		requests                 int
		returned                 bool
		duration, wait           time.Duration
		admitted, hour, interval int
		elapsed                  time.Duration
		maxTries                 int
	}{
		// One try for each request, and two for each return: of the request that gets the unit, and of the next.
		{"all give back", 50, true, 50 * time.Millisecond, RetryInterval, 50, 0, 0, 500 * time.Millisecond, 150},
		{"all give back, in sequence", 50, true, 700 * time.Millisecond, RetryInterval, 50, 0, 0, 7 * time.Second, 150},
		{"none gives back", 1000, false, 700 * time.Millisecond, RetryInterval, 5, 995, 0, 700 * time.Millisecond, 1000},
		{"all are slow", 1000, false, 3 * time.Second, RetryInterval, 5, 0, 995, 3 * time.Second, 1000},
		{"all are slow and give back, without a bound", 50, true, 3 * time.Second, 0, 50, 0, 0, 30 * time.Second, 150},
		{"all are slow, without a bound", 1000, false, 3 * time.Second, 0, 5, 995, 0, 3 * time.Second, 1000},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := Set{MaxWait: c.wait}
			l := limit{remaining: 5}
			all, elapsed := serve(c.requests, &s, &l, c.returned, c.duration)
			admitted, hour, interval := count(all)
			if admitted != c.admitted || hour != c.hour || interval != c.interval || elapsed != c.elapsed {
				t.Errorf("%s: got %d admitted, %d refused for an hour and %d for a second, in %v, want %d, %d, %d, in %v",
					c.name, admitted, hour, interval, elapsed, c.admitted, c.hour, c.interval, c.elapsed)
			}
			if l.tries > c.maxTries || len(s.keys) > 0 {
				t.Errorf("%s: got %d tries and %d keys, want at most %d, and 0", c.name, l.tries, len(s.keys), c.maxTries)
			}
		})
	}
}

// TestReserveWithoutWait: a request whose wait would be of no use gets the decision of the limiter at once.
func TestReserveWithoutWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Set{MaxWait: RetryInterval}
		s.reserve(t.Context(), "k", func() *core.Reservation { return reservation(true, 0) })
		for name, want := range map[string]core.Decision{
			"soon":           reservation(false, RetryInterval).Decision,
			"never":          reservation(false, core.Never).Decision,
			"no store":       {RetryAfter: time.Hour, Err: core.ErrStore},
			"another client": reservation(false, time.Hour).Decision,
		} {
			key := "k"
			if name == "another client" {
				key = name
			}
			start := time.Now()
			r := s.reserve(t.Context(), key, func() *core.Reservation { return &core.Reservation{Decision: want} })
			if r.Decision != want || time.Since(start) != 0 {
				t.Errorf("%s: got %+v after %v, want %+v at once", name, r.Decision, time.Since(start), want)
			}
		}
	})
}

// TestReserveEnds: a request whose context ends waits no longer, and a try that panics is not in flight.
func TestReserveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Set
		l := limit{remaining: 1}
		s.reserve(t.Context(), "k", l.reserve)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		start := time.Now()
		if r := s.reserve(ctx, "k", l.reserve); r.Decision.Allowed || time.Since(start) != 30*time.Millisecond {
			t.Errorf("got %+v after %v, want a refusal when the context ends", r.Decision, time.Since(start))
		}
		s.Done("k", false)
		func() {
			defer func() { _ = recover() }()
			s.reserve(t.Context(), "k", func() *core.Reservation { panic("observer") })
		}()
		if len(s.keys) > 0 {
			t.Errorf("got %d keys, want 0", len(s.keys))
		}
	})
}

// TestEvents: the observer gets one event for a request that waits, of its admission, or of its refusal with the
// RetryAfter of the client. The admission of a Silent request is a Peek.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []string
		l := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(1)},
			Observer: core.ObserverFunc(func(_ context.Context, e core.Event) {
				events = append(events, fmt.Sprintf("%s %v %v %v", e.Key, e.Decision.Allowed, e.Decision.RetryAfter, e.Peek))
			})}))
		s := Set{MaxWait: RetryInterval}
		request := core.Request{Key: "k", Cost: 1}
		first := s.Reserve(t.Context(), l, request)
		go func() {
			time.Sleep(time.Millisecond)
			first.Return(context.Background(), 1)
			s.Done("k", true)
		}()
		s.Reserve(t.Context(), l, request)
		s.Reserve(t.Context(), l, request)
		request.Silent = true
		s.Reserve(t.Context(), l, request)
		request.Key = "other"
		s.Reserve(t.Context(), l, request)
		want := []string{"k true 0s false", "k true 0s false", "k false 1s false", "k false 1s false", "other true 0s true"}
		if !slices.Equal(events, want) {
			t.Errorf("got the events %q, want %q", events, want)
		}
	})
}
