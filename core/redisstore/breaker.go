package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
	"github.com/sashlimit/sash/internal/errs"
)

// Breaker is the state of the breaker of a server: whether decisions wait for the
// server.
type Breaker struct {
	// Server is the address, as the Redis client has it: "FailoverClient" behind
	// Sentinel. It is "" for the breaker of all servers that are not known: before the
	// map of a cluster has been loaded, for a ring without a shard, and always behind
	// a client of a program's own type.
	Server string

	State   State
	Changed time.Time // when the breaker entered the State; at first, when it was made

	FailingSince time.Time `json:",omitzero"` // when the breaker was closed last; zero while it is closed
	Trips        uint64    // how often the breaker has opened after it was closed
}

// State is the state of a breaker: one of [StateClosed], [StateHalfOpen] and [StateOpen].
type State string

const (
	// StateClosed means that decisions wait for the server.
	StateClosed State = "closed"

	// StateHalfOpen means that a request is sent to try whether the server is back.
	// No decision waits for the server.
	StateHalfOpen State = "half-open"

	// StateOpen means that the server has been failing, and no decision waits for it.
	// The first request that comes 100 ms after the last failure, or later, tries the
	// server again; until one comes the breaker stays open.
	StateOpen State = "open"
)

const (
	// breakerFailures failures in a row open a server's breaker: then decisions
	// stop waiting for the server (TestBreakerClosed).
	breakerFailures = 5

	// breakerPause is how long a breaker stays open before the next decision is
	// tried (TestBreakerClosed). go-redis's pool dials a server that was gone once a
	// second, so a server that answers again is found within about a second.
	breakerPause = 100 * time.Millisecond
)

type twoStep = gobreaker.TwoStepCircuitBreaker[any]

// breaker is the breaker of one server.
type breaker struct {
	current atomic.Pointer[twoStep] // another after each connection that was waited for
	looked  atomic.Bool             // whether the memory of the server was looked at; see noteAnswer
	made    time.Time

	entering sync.Mutex              // held while status changes
	status   atomic.Pointer[Breaker] // a copy of the state, for Stats and for decisions (TestBreakerClosed)

	// refusal is the error of a decision that did not wait for the server, which has been failing. It names the latest
	// failure (TestOpenNamesTheCause).
	refusal atomic.Pointer[error]

	connections connections
	coldFor     atomic.Int64 // how long the latest call that failed would have waited for a connection; 0 if it had one
}

// closed reports whether decisions wait for the server. Unlike gobreaker's State it takes no lock.
func (b *breaker) closed() bool { return b.status.Load().State == StateClosed }

// failed notes a failure of the server, which may open the breaker. Decisions go without
// an allocation while the breaker is open, so the error is made here.
func (b *breaker) failed(err error, cold time.Duration) {
	if isReply(err) {
		cold = 0
	}
	b.coldFor.Store(int64(cold))
	text := strings.ReplaceAll(err.Error(), "sash: ", "")
	text = text[:min(len(text), script.MaxErrorText)]
	if addr := b.status.Load().Server; !strings.Contains(text, addr) {
		text = addr + ": " + text
	}
	refusal := errs.WithRemedy(errs.RemedyOf(err), fmt.Errorf("%w: %s", core.ErrUnavailable, text))
	b.refusal.Store(&refusal)
}

// reached closes the breaker, if calls have failed because there was no connection: there is one now, and calls get
// their replies in time. What becomes of the calls that have begun before is not heeded any more.
func (b *breaker) reached(roundTrip time.Duration) {
	if b.coldFor.Load() <= int64(roundTrip) {
		return
	}
	b.entering.Lock()
	defer b.entering.Unlock()
	if b.renew(); !b.closed() {
		b.enter(gobreaker.StateClosed, time.Now())
	}
}

// newBreaker returns a closed breaker of the server at addr.
func newBreaker(addr string) *breaker {
	b := &breaker{made: time.Now()}
	b.refusal.Store(new(error(core.ErrUnavailable)))
	b.status.Store(&Breaker{Server: addr, State: StateClosed, Changed: b.made})
	b.renew()
	return b
}

// renew makes the breaker closed, but for its status.
func (b *breaker) renew() {
	var own *twoStep
	own = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		Name:        b.status.Load().Server,
		MaxRequests: 1, // one trial at a time (TestBreakerClosed)
		Timeout:     breakerPause,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakerFailures },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			b.entering.Lock()
			defer b.entering.Unlock()
			if b.current.Load() == own {
				b.enter(to, time.Now())
			}
		},
		IsSuccessful: func(err error) bool { return !isFailure(err) },
		IsExcluded:   isCallers,
	})
	b.current.Store(own)
}

// enter notes that the breaker enters a state, for [Stats] and for decisions. b.entering must be held.
func (b *breaker) enter(state gobreaker.State, now time.Time) {
	before := *b.status.Load()
	after := before
	after.State, after.Changed = State(state.String()), now
	switch {
	case after.State == StateClosed:
		after.FailingSince = time.Time{}
	case before.State == StateClosed:
		after.FailingSince, after.Trips = now, before.Trips+1
	}
	b.status.Store(&after)
}

// isCallers reports whether err says nothing about the server, because the
// caller left or closed the client.
func isCallers(err error) bool {
	_, ok := errors.AsType[errCaller](err)
	return ok || errors.Is(err, redis.ErrClosed)
}

// failing are the beginnings of the replies of a server that cannot decide for
// now. Other errors are answers: the server is there, and waiting for the server
// costs nothing (TestIsFailure).
var failing = []string{"READONLY", "MASTERDOWN", "LOADING", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "NOREPLICAS"}

// isFailure reports whether err speaks against the server.
func isFailure(err error) bool {
	return err != nil && (!isReply(err) || begins(err, failing...))
}
