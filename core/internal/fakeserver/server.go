// Package fakeserver is a Redis server that keeps one client's logs, for tests in a bubble of testing/synctest.
package fakeserver

import (
	"sync"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// Server decides as the script does: TestLeaseScript of redisstore compares the two. It is safe for concurrent use;
// the fields are read between its decisions.
type Server struct {
	Limits    []core.Limit
	Skew      time.Duration // of its clock
	Allowance int64         // how far ahead of its clock anything may be counted, in microseconds

	mu      sync.Mutex
	Logs    []window.Log // one for each limit
	Charges []Charge
	Scripts int // that have run
	Rewound int // logs that were too far ahead
}

// Charge is what one script has counted, by the server's clock in microseconds.
type Charge struct {
	Taken int64 // when the script ran
	Stamp int64 // when the units are counted
	Units int64
}

// New returns a server with no counts, whose limits are all SlidingLog.
func New(skew time.Duration, limits ...core.Limit) *Server {
	shortest := limits[0].Window
	for _, l := range limits {
		shortest = min(shortest, l.Window)
	}
	allowance := window.Allowance(shortest.Microseconds())
	return &Server{Limits: limits, Skew: skew, Allowance: allowance, Logs: make([]window.Log, len(limits))}
}

// Now returns the time by the server's clock, in microseconds.
func (s *Server) Now() int64 { return time.Now().Add(s.Skew).UnixMicro() }

// Decide decides a request at now.
func (s *Server) Decide(now int64, ask core.Ask) core.Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Scripts++
	charge := !ask.Peek && ask.Cost > 0
	stamp := now + ahead(ask).Microseconds()
	far := make([]bool, len(s.Logs))
	for i := range s.Logs {
		if newest := s.Logs[i].Newest(); newest-now > s.Allowance {
			far[i] = true
		} else {
			stamp = max(stamp, newest)
		}
	}
	verdict, binding := s.judge(now, stamp, ask.Cost, far, charge)
	d := core.Decision{
		Allowed: verdict.Admitted, Source: core.SourceCounted, Limit: binding, Remaining: verdict.Remaining,
		ResetAfter: window.Duration(verdict.ResetAfter), RetryAfter: window.Duration(verdict.RetryAfter),
		At: time.UnixMicro(now),
	}
	if !charge || !d.Allowed {
		return d
	}
	d.At = time.UnixMicro(stamp)
	s.Charges = append(s.Charges, Charge{now, stamp, ask.Cost})
	for i, l := range s.Limits {
		s.Logs[i].Expire(now - l.Window.Microseconds())
		s.Logs[i].Push(stamp, ask.Cost)
	}
	return d
}

// ahead returns how much later than now a request is counted.
func ahead(ask core.Ask) time.Duration {
	if ask.Override == nil {
		return 0
	}
	return ask.Override.Ahead
}

// judge returns the verdict of the limit that binds. The logs that are far ahead are rewound if charge is true. s.mu
// must be held.
func (s *Server) judge(now, stamp, cost int64, far []bool, charge bool) (verdict window.Verdict, binding core.Limit) {
	for i, l := range s.Limits {
		limit := window.Limit{N: l.Requests, W: l.Window.Microseconds()}
		facts := s.Logs[i].Facts(limit, now, cost)
		if far[i] {
			facts = facts.Rewound(now)
			if charge {
				s.Logs[i].Rewind(now)
				s.Rewound++
			}
		}
		v := facts.Decide(limit, now, stamp, cost)
		if i == 0 || v.Binds(verdict) {
			verdict, binding = v, l
		}
	}
	return verdict, binding
}

// Return takes back what a request has counted, as the script scripts.lua.tmpl does.
func (s *Server) Return(back core.Refund) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	units := back.Units
	for i := range s.Logs {
		units = min(units, s.Logs[i].Return(back.At.UnixMicro(), back.Units))
	}
	return units
}

// Reset forgets what is counted.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.Logs)
}

// Charged returns how many units were counted since the server was made.
func (s *Server) Charged() (units int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.Charges {
		units += c.Units
	}
	return units
}
