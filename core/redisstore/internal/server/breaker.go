package server

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
	"github.com/sashlimit/sash/internal/errs"
)

// The states of a breaker; see redisstore.State.
const (
	Closed   = "closed"
	HalfOpen = "half-open"
	Open     = "open"
)

// Status is the state of a breaker; see redisstore.Breaker.
type Status struct {
	Server       string
	State        string
	Changed      time.Time
	FailingSince time.Time
	TripCount    uint64
}

const (
	// maxFailures in a row open a breaker.
	maxFailures = 5

	// breakerPause is the time between a failure and the next probe. go-redis's pool dials a server that was gone once
	// a second, so a server that answers again is found within about a second.
	breakerPause = 100 * time.Millisecond
)

// breaker keeps requests from waiting for a server that has been failing. After maxFailures in a row it is open. Then
// one request at a time is sent as a probe, and no caller waits for it; a probe that succeeds closes the breaker.
type breaker struct {
	// openErr is the error of a request while the breaker is not closed, and names the latest failure. It is nil while
	// the breaker is closed.
	openErr atomic.Pointer[error]

	mu         sync.Mutex // guards the fields below
	status     Status
	failures   int    // in a row
	max        int    // failures that open the breaker
	generation uint64 // of the state: results of calls that started in an earlier one are ignored
}

func newBreaker(addr string, failures int) *breaker {
	return &breaker{status: Status{Server: addr, State: Closed, Changed: time.Now()}, max: failures}
}

// start returns the generation that a call reports to, or openErr if the breaker is not closed.
func (b *breaker) start() (generation uint64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.status.State != Closed {
		return 0, *b.openErr.Load()
	}
	return b.generation, nil
}

// startProbe returns the generation that a probe reports to, or false if no probe is due or one is in flight.
func (b *breaker) startProbe(now time.Time) (generation uint64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.status.State != Open || now.Sub(b.status.Changed) < breakerPause {
		return 0, false
	}
	b.enter(HalfOpen, now)
	return b.generation, true
}

// report takes the result of a call.
func (b *breaker) report(generation uint64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case generation != b.generation:
	case err == nil || !IsFailure(err):
		if b.failures = 0; b.status.State == HalfOpen {
			b.openErr.Store(nil)
			b.enter(Closed, time.Now())
		}
	default:
		if b.failures++; b.status.State == HalfOpen || b.failures >= b.max {
			b.openErr.Store(b.openError(err))
			b.enter(Open, time.Now())
		}
	}
}

// enter changes the state. b.mu must be held.
func (b *breaker) enter(state string, now time.Time) {
	s := &b.status
	switch {
	case state == Closed:
		s.FailingSince = time.Time{}
	case s.State == Closed:
		s.FailingSince = now
		s.TripCount++
	}
	s.State, s.Changed = state, now
	b.generation++
}

// openError returns openErr after a failure.
func (b *breaker) openError(err error) *error {
	text := strings.ReplaceAll(err.Error(), "sash: ", "")
	text = text[:min(len(text), script.MaxErrorText)]
	if addr := b.status.Server; !strings.Contains(text, addr) {
		text = addr + ": " + text
	}
	refusal := errs.WithHint(errs.HintOf(err), fmt.Errorf("%w: %s", core.ErrUnavailable, text))
	return &refusal
}

// Status returns the state of the breaker.
func (b *breaker) Status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}
