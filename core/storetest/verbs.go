package storetest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
)

// charge checks that a client has no room under any limit after the largest charge, and other clients do.
func (s *suite) charge() {
	for _, a := range core.Algorithms() {
		limit, key := perYear(5).Using(a), a.String()
		l := s.limiter(limit)
		if d := l.Charge(ctx, key, core.MaxCounterRequests); d.Err != nil || !d.Allowed || d.Remaining != 0 {
			s.Fatalf("the largest charge: %+v", d)
		}
		s.refuses("after it", l, key, 1, 0)
		limit.Requests = core.MaxLogRequests
		s.refuses("the highest limit after it", s.limiter(limit), key, 1, 0)
		s.admits("another client", l, key+" other", 0, 5)
	}
}

// returns checks that many requests that reserve and return never hold more than the limit at a time, and that no unit
// stays counted.
func (s *suite) returns() {
	for _, a := range core.Algorithms() {
		const most, workers = 5, 16
		l := s.limiter(perYear(most).Using(a))
		var held, above, admitted atomic.Int64
		var group sync.WaitGroup
		for range workers {
			group.Go(func() {
				for range 20 {
					r := l.Reserve(ctx, core.Request{Key: a.String(), Cost: 1})
					if r.Decision.Err != nil {
						s.Error(r.Decision.Err)
						return
					}
					if !r.Decision.Allowed {
						time.Sleep(time.Millisecond)
						continue
					}
					admitted.Add(1)
					if held.Add(1) > most {
						above.Add(1)
					}
					held.Add(-1)
					if n, err := r.Return(ctx, 1); n != 1 || err != nil {
						s.Errorf("%d given back: %v", n, err)
					}
				}
			})
		}
		group.Wait()
		if above.Load() > 0 || admitted.Load() < most {
			s.Errorf("%v: %d requests above the limit, of %d", a, above.Load(), admitted.Load())
		}
		s.admits("all was given back", l, a.String(), most, 0)
	}
}

// plans checks three promises of a Bucket: each request pays by its own limit, returned and refused units leave no
// trace, and a plan with another rate and burst keeps the owed time.
func (s *suite) plans() {
	day := 24 * time.Hour
	small, large := core.PerHour(10).Using(core.Bucket), []core.Limit{core.PerHour(1000).Using(core.Bucket)}
	l := s.limiter(small)
	for _, r := range []core.Request{
		{Cost: 100_000, Charge: true}, {Cost: core.MaxLogRequests, Charge: true}, {Cost: 999, Limits: large},
		{Cost: 2000, Limits: large}, {Cost: 1, Limits: []core.Limit{core.Per(1, core.MinWindow).Using(core.Bucket)}},
	} {
		r.Key = "trace"
		all := l.Reserve(ctx, r)
		if n, err := all.Return(ctx, r.Cost); all.Decision.Allowed && n != r.Cost || err != nil {
			s.Errorf("of %+v, %d are given back, %v", r, n, err)
		}
	}
	s.admits("where all was given back", l, "trace", 10, 0)

	s.admits("a half of 10", l, "own", 5, 5)
	if d := l.Decide(ctx, core.Request{Key: "own", Cost: 500, Limits: large}); !d.Allowed || d.Remaining != 0 {
		s.Errorf("a half of 1000 after a half of 10: %+v", d)
	}
	s.refuses("after two halves", l, "own", 1, 0)

	s.admits("a burst of 20", s.limiter(core.RateAndBurst(10, day, 20)), "plan", 20, 0)
	s.refuses("a higher rate", s.limiter(core.RateAndBurst(20, day, 20)), "plan", 1, 0)
	s.refuses("a lower burst", s.limiter(core.RateAndBurst(10, day, 5)), "plan", 1, 0)
	plan := []core.Limit{core.RateAndBurst(20, day, 20)}
	d := s.limiter(core.RateAndBurst(10, day, 20)).Decide(ctx, core.Request{Key: "plan", Cost: 1, Limits: plan})
	if d.Allowed || d.Limit.Window != day {
		s.Errorf("a higher rate for one request: %+v", d)
	}
}
