package server

import "github.com/sony/gobreaker/v2"

// What the tests of the store see and hold of the inside.

// Calls is how many calls to Redis are under way.
func (c *Client) Calls() int { return len(c.calls) }

// HoldClosed makes the breaker such that it never opens.
func (s *Server) HoldClosed() {
	s.current.Store(gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		ReadyToTrip: func(gobreaker.Counts) bool { return false },
	}))
}

// Making is how many connections are in the making.
func (s *Server) Making() int {
	s.connections.mu.Lock()
	defer s.connections.mu.Unlock()
	return s.connections.making
}
