package server

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

// Status is the state of the breaker of a server; see redisstore.Breaker.
type Status struct {
	Server       string
	State        gobreaker.State
	Changed      time.Time
	FailingSince time.Time
	Trips        uint64
}

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

// Server is what this process knows of one Redis server: its breaker and its connections.
type Server struct {
	// Requests is what the store keeps of a node of a cluster or a ring: where requests wait that go to it together.
	Requests any

	made    time.Time
	current atomic.Pointer[twoStep] // another after each connection that was waited for

	entering sync.Mutex             // held while status changes
	status   atomic.Pointer[Status] // a copy of the state, for Breakers and for decisions (TestBreakerClosed)

	// refusal is the error of a decision that did not wait for the server, which has been failing. It names the latest
	// failure (TestOpenNamesTheCause of redisstore).
	refusal atomic.Pointer[error]

	connections connections
	coldFor     atomic.Int64 // how long the latest call that failed would have waited for a connection; 0 if it had one
}

// Addr is the address of the server, or "" if it is not known.
func (s *Server) Addr() string { return s.status.Load().Server }

// Closed reports whether decisions wait for the server. Unlike gobreaker's State it takes no lock.
func (s *Server) Closed() bool { return s.status.Load().State == gobreaker.StateClosed }

// Limit is how many connections to the server there may be.
func (s *Server) Limit() int { return s.connections.limit }

// failed notes a failure of the server, which may open the breaker. Decisions go without
// an allocation while the breaker is open, so the error is made here.
func (s *Server) failed(err error, cold time.Duration) {
	if IsReply(err) {
		cold = 0
	}
	s.coldFor.Store(int64(cold))
	text := strings.ReplaceAll(err.Error(), "sash: ", "")
	text = text[:min(len(text), script.MaxErrorText)]
	if addr := s.Addr(); !strings.Contains(text, addr) {
		text = addr + ": " + text
	}
	refusal := errs.WithRemedy(errs.RemedyOf(err), fmt.Errorf("%w: %s", core.ErrUnavailable, text))
	s.refusal.Store(&refusal)
}

// reached closes the breaker, if calls have failed because there was no connection: there is one now, and calls get
// their replies in time. What becomes of the calls that have begun before is not heeded any more.
func (s *Server) reached(roundTrip time.Duration) {
	if s.coldFor.Load() <= int64(roundTrip) {
		return
	}
	s.entering.Lock()
	defer s.entering.Unlock()
	if s.renew(); !s.Closed() {
		s.enter(gobreaker.StateClosed, time.Now())
	}
}

// newBreaker returns a closed breaker of the server at addr.
func newServer(addr string) *Server {
	s := &Server{made: time.Now()}
	s.refusal.Store(new(error(core.ErrUnavailable)))
	s.status.Store(&Status{Server: addr, State: gobreaker.StateClosed, Changed: s.made})
	s.renew()
	return s
}

// renew makes the breaker closed, but for its status.
func (s *Server) renew() {
	var own *twoStep
	own = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		Name:        s.Addr(),
		MaxRequests: 1, // one trial at a time (TestBreakerClosed)
		Timeout:     breakerPause,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakerFailures },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			s.entering.Lock()
			defer s.entering.Unlock()
			if s.current.Load() == own {
				s.enter(to, time.Now())
			}
		},
		IsSuccessful: func(err error) bool { return !IsFailure(err) },
		IsExcluded:   isCallers,
	})
	s.current.Store(own)
}

// enter notes that the breaker enters a state, for Breakers and for decisions. s.entering must be held.
func (s *Server) enter(state gobreaker.State, now time.Time) {
	before := *s.status.Load()
	after := before
	after.State, after.Changed = state, now
	switch {
	case after.State == gobreaker.StateClosed:
		after.FailingSince = time.Time{}
	case before.State == gobreaker.StateClosed:
		after.FailingSince, after.Trips = now, before.Trips+1
	}
	s.status.Store(&after)
}

// isCallers reports whether err says nothing about the server, because the
// caller left or closed the client.
func isCallers(err error) bool {
	_, ok := errors.AsType[errCaller](err)
	return ok || errors.Is(err, redis.ErrClosed)
}

// failing are the beginnings of the replies of a server that cannot decide for
// now. Other errors are answers: the server is there, and waiting for the server
// costs nothing (TestIsFailure). An answer about a slot says nothing of the node.
var failing = []string{"READONLY", "MASTERDOWN", "LOADING", "MISCONF", "NOREPLICAS"}

// IsFailure reports whether err speaks against the server.
func IsFailure(err error) bool {
	return err != nil && (!IsReply(err) || Begins(err, failing...))
}

// Informer returns the client to ask about the server, or nil if a question might delay a
// decision, or is not certain to reach the server.
func (s *Server) Informer() redis.UniversalClient {
	c, via := s.connections.client, s.connections.via
	if node, ok := via.(*redis.Client); ok {
		if node.Options().PoolSize > 1 {
			return node
		}
		return nil
	}
	if c.cluster == nil && c.ring == nil {
		return c.RDB
	}
	return nil
}
