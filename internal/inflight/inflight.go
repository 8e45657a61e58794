// Package inflight lets a request wait that is refused because other requests fill its limit, of which some
// will give their units back: the right passwords among attempts of which only the failed ones count.
//
//	r := attempts.Ask(ctx, limiter, request)
//	if r.Decision.Allowed {
//		defer attempts.Done(key, true)
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

// Moment is the RetryAfter of a request that has waited in vain.
const Moment = time.Second

// Set knows the requests of this process whose units may be given back, by key. The zero Set is empty.
// It holds a key for as long as a request of it is under way or waits.
type Set struct {
	MaxWait time.Duration // bounds the wait of a request while no units come back; 0 is no bound

	mu   sync.Mutex
	keys map[string]*entry
}

// entry holds the requests of a key. The mutex of the set guards the numbers.
type entry struct {
	requests int           // in Reserve, or admitted and not done
	underway int           // of these, the ones that ask or are admitted
	returned int           // requests that have given units back
	wake     chan struct{} // holds an element if a waiting request has something to look at; nil until one waits
}

// Reserve returns the reservation of ask. A refused request waits for others that are under way, until ctx ends or no
// units have come back for MaxWait, and asks again once one of them has given units back. If some are under way even
// then, RetryAfter is a Moment. The caller calls Done for an admitted request.
//
// A unit that comes back wakes one request. If that is admitted, the next one is woken, since there may be room
// for more; if nothing is under way any more, each leaves and wakes the next. So all of them find out, and no
// crowd asks the store.
func (s *Set) Reserve(ctx context.Context, key string, ask func() *core.Reservation) (r *core.Reservation) {
	e := s.enter(key)
	defer func() { // also if an observer of the limiter panics
		if r == nil || !r.Decision.Allowed {
			s.leave(key, e)
		}
	}()
	r, returned := s.ask(e, ask)
	if !s.isWorthWait(&r.Decision) {
		return r
	}
	wait, seen := cmp.Or(s.MaxWait, core.Never), returned
	late := time.NewTimer(wait)
	defer late.Stop()
	for {
		underway, now, wake := s.look(e)
		if underway > 0 {
			select {
			case <-wake:
			case <-late.C:
				if _, now, _ = s.look(e); now == seen {
					r.Decision.RetryAfter = Moment
					return r
				}
				seen = now
				late.Reset(wait)
				continue
			case <-ctx.Done():
				r.Decision.RetryAfter = Moment
				return r
			}
			underway, now, _ = s.look(e)
		}
		switch {
		case now != returned:
			if r, returned = s.ask(e, ask); !s.isWorthWait(&r.Decision) {
				return r
			}
		case underway == 0:
			return r
		}
	}
}

// Ask is Reserve by a limiter. Its observer hears once of a request that waits: how it ended. An admission of a request
// that is Unreported is reported as a Peek: it admits no request of a client.
func (s *Set) Ask(ctx context.Context, l *core.Limiter, request core.Request) *core.Reservation {
	held := request
	held.Held = true
	r := s.Reserve(ctx, request.Key, func() *core.Reservation { return l.Reserve(ctx, held) })
	if !r.Decision.Allowed || request.Unreported {
		request.Peek = r.Decision.Allowed
		l.Report(ctx, request, r.Decision)
	}
	return r
}

// isWorthWait reports whether a request is refused by what is counted, for longer than MaxWait.
func (s *Set) isWorthWait(d *core.Decision) bool {
	return !d.Allowed && d.Limit.Requests > 0 && s.MaxWait < d.RetryAfter && d.RetryAfter < core.Never
}

// Done ends an admitted request. back says that its units are given back, and not that they stay counted.
func (s *Set) Done(key string, back bool) {
	s.mu.Lock()
	e := s.keys[key]
	e.underway--
	if back {
		e.returned++
	}
	s.mu.Unlock()
	s.leave(key, e)
}

// enter returns the entry of the key for a request.
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

// leave takes a request out of the entry, which goes with its last one.
func (s *Set) leave(key string, e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.signal()
	if e.requests--; e.requests == 0 {
		delete(s.keys, key)
	}
}

// ask asks. While it does, the request is under way, and after an admission it stays so. returned is the number
// from before: what came back later is a reason to ask again.
func (s *Set) ask(e *entry, ask func() *core.Reservation) (r *core.Reservation, returned int) {
	s.mu.Lock()
	e.underway++
	returned = e.returned
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		admitted := r != nil && r.Decision.Allowed
		if !admitted {
			e.underway--
		}
		if admitted || e.underway == 0 {
			e.signal()
		}
	}()
	return ask(), returned
}

// look returns the number of requests under way, the number of returns, and the channel to wait with.
func (s *Set) look(e *entry) (underway, returned int, wake <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.wake == nil {
		e.wake = make(chan struct{}, 1)
	}
	return e.underway, e.returned, e.wake
}

// signal wakes one request that waits. The mutex of the set must be held.
func (e *entry) signal() {
	select {
	case e.wake <- struct{}{}:
	default: // the channel is nil or full: none waits, or one is woken already
	}
}
