package inflight

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// client is a client of a limiter, and counts its tries.
type client struct {
	*core.Limiter
	tries atomic.Int64
}

func newClient(limit core.Limit) *client {
	return &client{Limiter: core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{limit}}))}
}

func (c *client) reserve() *core.Reservation {
	c.tries.Add(1)
	return c.Limiter.Reserve(context.Background(), core.Request{Key: "k", Cost: 1})
}

// TestReserve: of many requests at once, each admitted one lasts for duration, and gives its unit back if returned is
// true. The others are refused for the rest of the hour, or for a RetryInterval.
func TestReserve(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name           string
		requests       int
		returned       bool
		duration, wait time.Duration
		want           [3]int64 // admitted, refused for the hour, refused for a RetryInterval
		elapsed        time.Duration
		maxTries       int64
	}{
		// One try for each request, and two for each return: of the request that gets the unit, and of the next.
		{"all give back", 50, true, 50 * ms, RetryInterval, [3]int64{50}, 500 * ms, 150},
		{"all give back, in sequence", 50, true, 700 * ms, RetryInterval, [3]int64{50}, 7000 * ms, 150},
		{"none gives back", 1000, false, 700 * ms, RetryInterval, [3]int64{5, 995}, 700 * ms, 1000},
		{"all are slow", 1000, false, 3000 * ms, RetryInterval, [3]int64{5, 0, 995}, 3000 * ms, 1000},
		{"all are slow and give back, without a bound", 50, true, 3000 * ms, 0, [3]int64{50}, 30_000 * ms, 150},
		{"all are slow, without a bound", 1000, false, 3000 * ms, 0, [3]int64{5, 995}, 3000 * ms, 1000},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, l, start := Set{MaxWait: c.wait}, newClient(core.PerHour(5)), time.Now()
			var admitted, hour, interval atomic.Int64
			var group sync.WaitGroup
			for range c.requests {
				group.Go(func() {
					r := s.reserve(t.Context(), "k", l.reserve)
					switch retry := r.Decision.RetryAfter; {
					case r.Decision.Allowed:
						admitted.Add(1)
						time.Sleep(c.duration)
						if c.returned {
							r.Return(t.Context(), 1)
						}
						s.Done("k", c.returned)
					case retry == RetryInterval:
						interval.Add(1)
					case retry > 59*time.Minute:
						hour.Add(1)
					}
				})
			}
			group.Wait()
			got := [3]int64{admitted.Load(), hour.Load(), interval.Load()}
			if elapsed := time.Since(start); got != c.want || elapsed != c.elapsed {
				t.Errorf("%s: got %d in %v, want %d in %v", c.name, got, elapsed, c.want, c.elapsed)
			}
			if tries := l.tries.Load(); tries > c.maxTries || len(s.keys) > 0 {
				t.Errorf("%s: got %d tries and %d keys, want at most %d, and 0", c.name, tries, len(s.keys), c.maxTries)
			}
		})
	}
}

// TestReserveWithoutWait: a request whose wait would be of no use gets the decision of the limiter at once.
func TestReserveWithoutWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, limit := Set{MaxWait: RetryInterval}, core.PerHour(5)
		s.reserve(t.Context(), "k", newClient(limit).reserve)
		for _, c := range []struct {
			key  string
			want core.Decision
		}{
			{"k", core.Decision{Limit: limit, RetryAfter: RetryInterval}}, // soon
			{"k", core.Decision{Limit: limit, RetryAfter: core.Never}},
			{"k", core.Decision{RetryAfter: time.Hour, Err: core.ErrStore}},
			{"another client", core.Decision{Limit: limit, RetryAfter: time.Hour}},
		} {
			start := time.Now()
			r := s.reserve(t.Context(), c.key, func() *core.Reservation { return &core.Reservation{Decision: c.want} })
			if r.Decision != c.want || time.Since(start) != 0 {
				t.Errorf("%s: got %+v after %v, want %+v at once", c.key, r.Decision, time.Since(start), c.want)
			}
		}
	})
}

// TestReserveEnds: a request whose context ends waits no longer, and a try that panics is not in flight.
func TestReserveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Set
		l := newClient(core.PerHour(1))
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
				d := e.Decision
				events = append(events, fmt.Sprintf("%s %v %v %v", e.Key, d.Allowed, d.RetryAfter, e.Peek))
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
		admitted, refused := "k true 0s false", "k false 1s false"
		want := []string{admitted, admitted, refused, refused, "other true 0s true"}
		if !slices.Equal(events, want) {
			t.Errorf("got the events %q, want %q", events, want)
		}
	})
}

// TestObserverPanics: if the observer panics at an admission, the units are free again, and no request waits for them.
func TestObserverPanics(t *testing.T) {
	l := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(1)},
		Observer: core.ObserverFunc(func(_ context.Context, e core.Event) {
			if e.Peek {
				panic("broken")
			}
		})}))
	var s Set
	func() {
		defer func() { _ = recover() }()
		s.Reserve(t.Context(), l, core.Request{Key: "k", Cost: 1, Silent: true})
		t.Error("the observer did not panic")
	}()
	if d := l.Allow(t.Context(), "k"); !d.Allowed || len(s.keys) > 0 {
		t.Errorf("%+v, %d keys, want the unit and no key", d, len(s.keys))
	}
}
