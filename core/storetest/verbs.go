package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// limitsOfRequest checks that limits of a request count where those of the rule count.
func (s *suite) limitsOfRequest() {
	for i, limits := range byEach(perYear(3), perYear(100).Named("second")) {
		key := fmt.Sprint(i)
		l := s.limiter(limits...)
		plan := func(n, cost int64) core.Decision {
			own := []core.Limit{limits[0], limits[1]}
			own[0].Requests = n
			return l.Decide(ctx, core.Request{Key: key, Cost: cost, Limits: own})
		}
		s.admits("by the rule", l, key, 3, 0)
		for range 3 { // a refusal by one limit says nothing about another
			s.refuses("by the rule", l, key, 1, 0)
			if d := plan(2, 1); d.Err != nil || d.Allowed || d.Remaining != 0 || d.Limit.Requests != 2 {
				s.Fatalf("by a lower limit: %+v", d)
			}
		}
		if d := plan(10, 4); d.Err != nil || !d.Allowed || d.Remaining != 3 || d.Limit.Requests != 10 {
			s.Fatalf("by a higher limit: %+v", d)
		}
		s.refuses("by the rule again", l, key, 1, 0)
		s.admits("the other limit has counted too", s.limiter(limits[1]), key, 0, 93)
	}
}

// charge checks that a charge counts beyond the limits, once and for each.
func (s *suite) charge() {
	for i, limits := range byEach(perYear(5), perYear(100).Named("second")) {
		key := fmt.Sprint(i)
		l := s.limiter(limits...)
		for _, c := range []struct{ cost, remaining int64 }{{3, 2}, {4, 0}, {0, 0}, {20, 0}} {
			d := l.Charge(ctx, key, c.cost)
			if d.Err != nil || !d.Allowed || d.Remaining != c.remaining || d.RetryAfter != 0 {
				s.Fatalf("a charge of %d: %+v, want %d remaining", c.cost, d, c.remaining)
			}
		}
		if d := s.refuses("after a charge", l, key, 1, 0); d.RetryAfter <= 0 || d.RetryAfter == core.Never {
			s.Fatalf("after a charge: %+v", d)
		}
		s.admits("what was charged", s.limiter(limits[1]), key, 0, 73)
		s.admits("nothing at another client", l, key+" other", 0, 5)

		huge := l.Charge(ctx, key, core.MaxCounterRequests)
		if huge.Err != nil || !huge.Allowed || huge.Remaining != 0 {
			s.Fatalf("the largest charge: %+v", huge)
		}
		most := limits[1].Using(limits[1].Algorithm)
		most.Requests = core.MaxLogRequests
		s.refuses("no limit has room after the largest charge", s.limiter(most), key, 1, 0)
		if d := l.Charge(ctx, key, core.MaxCounterRequests+1); d.Err == nil || d.Allowed {
			s.Fatalf("more than the largest charge: %+v", d)
		}
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

// returnOnce checks what is given back of a request: each unit once, and nothing of a
// request that was refused.
func (s *suite) returnOnce() {
	for i, limits := range byEach(perYear(10), perYear(20).Named("second")) {
		l, key := s.limiter(limits...), fmt.Sprint(i)
		gives := func(r *core.Reservation, n, want, remaining int64) {
			s.Helper()
			s.returns(fmt.Sprint(limits), r, n, want)
			s.admits("after that", l, key, 0, remaining)
		}
		r := s.reserve(l, core.Request{Key: key, Cost: 6})
		gives(r, 2, 2, 6)
		gives(r, 0, 0, 6)
		gives(r, 9, 4, 10)
		gives(r, 1, 0, 10)
		gives(s.reserve(l, core.Request{Key: key, Cost: 1, Peek: true}), 1, 0, 10)
		full := s.reserve(l, core.Request{Key: key, Cost: 10})
		for range 3 { // a refusal that is remembered ends with the Return
			refused := s.reserve(l, core.Request{Key: key, Cost: 1})
			if refused.Decision.Allowed {
				s.Fatalf("%+v", refused.Decision)
			}
			gives(refused, 1, 0, 0)
		}
		gives(full, 1, 1, 1)
		s.admits("the unit that was given back", l, key, 1, 0)
		if err := full.Settle(ctx, 4); err != nil { // of 9
			s.Fatal(err)
		}
		s.admits("settled", l, key, 0, 5)
		s.settles(l, key+" settled")
	}
}

// settles checks that a request costs what it is settled at.
func (s *suite) settles(l *core.Limiter, key string) {
	for _, c := range []struct{ estimate, actual, remaining int64 }{{5, 2, 8}, {3, 3, 5}, {1, 4, 1}, {1, 9, 0}} {
		r := s.reserve(l, core.Request{Key: key, Cost: c.estimate})
		if err := r.Settle(ctx, c.actual); err != nil || !r.Decision.Allowed {
			s.Fatalf("%d settled at %d: %v, %+v", c.estimate, c.actual, err, r.Decision)
		}
		s.admits("settled", l, key, 0, c.remaining)
	}
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
