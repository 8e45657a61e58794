package storetest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
)

// charge checks that no limit has room after the largest charge, but for other clients.
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

// giveBack checks that many requests that reserve and give back never hold more than the
// limit at a time, and leave nothing behind.
func (s *suite) giveBack() {
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
