// Package inflight makes a refused request wait while requests in flight fill its limit and may give their units back:
// a right password, among attempts of which a limit counts only the failed ones.
//
//	r := set.Reserve(ctx, limiter, request)
//	if r.Decision.Allowed {
//		defer set.Done(key, true)
//		...
//	}
package inflight

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/sashlimit/sash/core"
)

// RetryInterval is the RetryAfter of a request that is refused after it has waited.
const RetryInterval = time.Second

// Set holds the requests of this process whose units may be given back, by key. The zero Set is empty and has no bound
// on waits. A key is held while a request of it is in flight or waits.
type Set struct {
	MaxWait time.Duration // the maximum wait of a request while no units are given back; 0 for none

	mu   sync.Mutex
	keys map[string]*entry
}

// entry counts the requests of a key. The mutex of the set guards the numbers.
type entry struct {
	requests int           // in reserve, or admitted and not done
	inflight int           // the part of requests that reserve units or are admitted
	returns  int           // the requests that have given units back
	wake     chan struct{} // holds an element if a waiting request has to try again; nil until one waits
}

// Reserve reserves units of the limiter for the request. A refused request waits for requests in flight, until ctx ends
// or no units have been given back for MaxWait, and tries again after each return. If requests are in flight even then,
// its RetryAfter is RetryInterval. The caller calls Done for an admitted request.
//
// The observer gets one event for a request, about its last decision. The admission of a Silent request is
// reported as a Peek, since it admits no request of a client.
func (s *Set) Reserve(ctx context.Context, l *core.Limiter, request core.Request) *core.Reservation {
	held := request
	held.SilentRefusal = true
	r := s.reserve(ctx, request.Key, func() *core.Reservation { return l.Reserve(ctx, held) })
	reported := false
	defer func() {
		if !reported && r.Decision.Allowed { // the observer panics
			_, _ = r.Return(ctx, request.Cost)
			s.Done(request.Key, true)
		}
	}()
	if !r.Decision.Allowed || request.Silent {
		request.Peek = r.Decision.Allowed
		l.Report(ctx, request, r.Decision)
	}
	reported = true
	return r
}

// reserve returns the reservation of try, as Reserve does.
//
// A return wakes one request. If that is admitted, it wakes the next one, since more units may be free. If no request
// is in flight, each waiting one leaves and wakes the next. So all of them return, and the store gets one try at a
// time.
func (s *Set) reserve(ctx context.Context, key string, try func() *core.Reservation) (r *core.Reservation) {
	e := s.enter(key)
	defer func() { // also if an observer of the limiter panics
		if r == nil || !r.Decision.Allowed {
			s.leave(key, e)
		}
	}()
	r, returns := s.try(e, try)
	if !s.canWait(&r.Decision) {
		return r
	}
	wait, latest := cmp.Or(s.MaxWait, core.Never), returns
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		inflight, now, wake := s.state(e)
		if inflight > 0 {
			select {
			case <-wake:
			case <-timer.C:
				if _, now, _ = s.state(e); now == latest {
					r.Decision.RetryAfter = RetryInterval
					return r
				}
				latest = now
				timer.Reset(wait)
				continue
			case <-ctx.Done():
				r.Decision.RetryAfter = RetryInterval
				return r
			}
			inflight, now, _ = s.state(e)
		}
		switch {
		case now != returns:
			if r, returns = s.try(e, try); !s.canWait(&r.Decision) {
				return r
			}
		case inflight == 0:
			return r
		}
	}
}

// canWait reports whether the counts refuse a request, for longer than MaxWait.
func (s *Set) canWait(d *core.Decision) bool {
	return !d.Allowed && d.Limit.Requests > 0 && s.MaxWait < d.RetryAfter && d.RetryAfter < core.Never
}

// Done ends an admitted request. If returned is false, its units stay counted.
func (s *Set) Done(key string, returned bool) {
	s.mu.Lock()
	e := s.keys[key]
	e.inflight--
	if returned {
		e.returns++
	}
	s.mu.Unlock()
	s.leave(key, e)
}

// enter adds a request to the entry of the key, which it returns.
func (s *Set) enter(key string) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.keys[key]
	if e == nil {
		if s.keys == nil {
			s.keys = map[string]*entry{}
		}
		e = new(entry)
		s.keys[key] = e
	}
	e.requests++
	return e
}

// leave removes a request from the entry, and an entry without requests from the set.
func (s *Set) leave(key string, e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.signal()
	if e.requests--; e.requests == 0 {
		delete(s.keys, key)
	}
}

// try calls reserve. The request is in flight meanwhile, and stays so after an admission. returns is the number before
// the call, so that a return during the call leads to another try.
func (s *Set) try(e *entry, reserve func() *core.Reservation) (r *core.Reservation, returns int) {
	s.mu.Lock()
	e.inflight++
	returns = e.returns
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		admitted := r != nil && r.Decision.Allowed
		if !admitted {
			e.inflight--
		}
		if admitted || e.inflight == 0 {
			e.signal()
		}
	}()
	return reserve(), returns
}

// state returns the number of requests in flight, the number of returns, and the channel to wait on.
func (s *Set) state(e *entry) (inflight, returns int, wake <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.wake == nil {
		e.wake = make(chan struct{}, 1)
	}
	return e.inflight, e.returns, e.wake
}

// signal wakes one waiting request. The mutex of the set must be held.
func (e *entry) signal() {
	select {
	case e.wake <- struct{}{}:
	default: // no request waits, or one is awake already
	}
}
