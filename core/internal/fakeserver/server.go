// Package fakeserver simulates a Redis server with the logs of one client, for tests in a bubble of testing/synctest.
package fakeserver

import (
	"sync"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/model"
)

// Server decides by the model, which gives the same answers as the script. It is safe for concurrent use; tests read
// its fields between decisions.
type Server struct {
	Limits []core.Limit
	Skew   time.Duration // offset of its clock
	Pace   float64       // seconds that its clock gains in a second

	start   time.Time
	mu      sync.Mutex
	Client  model.Client
	Charges []Charge
	Scripts int // number of scripts run
}

// Charge holds the units that one script has counted, by the server's clock in microseconds.
type Charge struct {
	Taken int64 // time of the script
	Stamp int64 // time at which the units are counted
	Units int64
}

// New returns a server with no counts, whose limits are all SlidingLog.
func New(skew time.Duration, limits ...core.Limit) *Server {
	return &Server{Limits: limits, Skew: skew, start: time.Now()}
}

// Now returns the time by the server's clock, in microseconds.
func (s *Server) Now() int64 {
	now := time.Now()
	return now.Add(s.Skew + time.Duration(s.Pace*float64(now.Sub(s.start)))).UnixMicro()
}

// Decide decides a request at now.
func (s *Server) Decide(now int64, ask core.Ask) core.Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Scripts++
	limits := s.Limits
	if o := ask.Override; o != nil && o.Limits != nil {
		limits = o.Limits
	}
	d := s.Client.Ask(limits, time.UnixMicro(now), ask)
	if d.Allowed && !ask.Peek && ask.Cost > 0 {
		s.Charges = append(s.Charges, Charge{now, d.At.UnixMicro(), ask.Cost})
	}
	return d
}

// Usage returns the use of each limit at now.
func (s *Server) Usage(now int64) []core.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Client.Usage(s.Limits, time.UnixMicro(now))
}

// Return takes back units of a request, as return.lua of redisstore does.
func (s *Server) Return(back core.Refund) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Client.Return(s.Limits, time.UnixMicro(s.Now()), back)
}
