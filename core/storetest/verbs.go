package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
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
					r := s.reserve(l, core.Request{Key: a.String(), Cost: 1})
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

// returnDepth checks that what is given back in the middle of a log leaves the others as
// they are, and that what is behind too many others stays counted.
func (s *suite) returnDepth() {
	l := s.limiter(perYear(core.MaxLogRequests))
	for _, entries := range []int{20, window.ReturnDepth + 1} {
		key := fmt.Sprint(entries)
		first := s.reserve(l, core.Request{Key: key, Cost: 3})
		later := s.reserveApart(l, key, first.Decision.At, entries)
		left := int64(core.MaxLogRequests - 3 - len(later))
		gives := func(what string, r *core.Reservation, n, want int64) {
			s.Helper()
			got := s.returns(what, r, n, want)
			left += got
			if !s.leased.Load() { // else Remaining is what a lease knows
				s.admits(what, l, key, 0, left)
			}
		}
		gives("the newest", later[len(later)-1], 1, 1)
		if entries > window.ReturnDepth {
			s.admits("one more", l, key, 1, left-1)
			got, err := first.Return(ctx, 3)
			if err != nil || got != 0 && got != 3 { // a store may have merged entries
				s.Fatalf("the oldest: %d of 3 given back, %v", got, err)
			}
			if !s.leased.Load() {
				s.admits("the oldest", l, key, 0, left-1+got)
			}
			continue
		}
		gives("one in the middle", later[len(later)/2], 1, 1)
		gives("the same again", later[len(later)/2], 1, 0)
		gives("a part of the oldest", first, 1, 1)
		gives("the rest of the oldest", first, 2, 2)
	}
}

// reserveApart reserves a unit of key until that was at n different times after at: a store
// may keep requests of one microsecond as one entry. Leased units have few times, so of
// these there are n.
func (s *suite) reserveApart(l *core.Limiter, key string, at time.Time, n int) (all []*core.Reservation) {
	s.Helper()
	for times := 0; times < n && !(s.leased.Load() && len(all) >= n); {
		r := s.reserve(l, core.Request{Key: key, Cost: 1})
		if r.Decision.At.After(at) {
			times++
			at = r.Decision.At
		}
		all = append(all, r)
	}
	return all
}

// returns gives n units back, fails unless the wanted number count no more, and returns it.
// Units of a lease go back to the lease, or stay counted when that is over.
func (s *suite) returns(what string, r *core.Reservation, n, want int64) int64 {
	s.Helper()
	got, err := r.Return(ctx, n)
	if err != nil || got != want && (got != 0 && got != n || !s.leased.Load()) {
		s.Fatalf("%s: %d of %d given back, %v, want %d", what, got, n, err, want)
	}
	return got
}

// reserve reserves a request.
func (s *suite) reserve(l *core.Limiter, r core.Request) *core.Reservation {
	reserved := l.Reserve(ctx, r)
	if reserved.Decision.Source == core.SourceLeased {
		s.leased.Store(true)
	}
	return reserved
}
