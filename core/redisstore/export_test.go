package redisstore

import (
	"github.com/sony/gobreaker/v2"

	"github.com/sashlimit/sash/core"
)

// What the tests of package redisstore_test see of the inside.

var ErrOpen = errOpen

const DenialCheck = denialCheck

// BreakerState is the state of the breaker of the server at addr: "" for the
// only one.
func BreakerState(s *Store, addr string) string { return s.client.breakers.get(addr).State().String() }

// BreakerFailures is how many failures a closed breaker has seen.
func BreakerFailures(s *Store, addr string) int {
	return int(s.client.breakers.get(addr).Counts().TotalFailures)
}

// HoldBreakersClosed gives the servers at addrs, and whichever is not known
// yet, breakers that never open.
func HoldBreakersClosed(s *Store, addrs ...string) {
	s.client.breakers.mu.Lock()
	defer s.client.breakers.mu.Unlock()
	s.client.breakers.of = map[string]*breaker{}
	for _, addr := range append(addrs, "") {
		s.client.breakers.of[addr] = newBreaker(addr, func(gobreaker.Counts) bool { return false })
	}
}

// Calls is how many calls to Redis are under way.
func Calls(s *Store) int { return len(s.client.calls) }

// Keys are the Redis keys of a client, a limit each.
func Keys(s *Store, l *core.Limiter, client string) []string {
	c, err := s.Bind(core.Rule{Name: l.Name(), Rule: l.RuleName(), Limits: l.Limits()})
	if err != nil {
		panic(err)
	}
	var keys []string
	for _, k := range c.(*counts).keys(nil, client) {
		keys = append(keys, k.(string))
	}
	return keys
}

// CheckInfo is what Check makes of a reply to INFO.
func CheckInfo(addr, info string) []error { return checkInfo(addr, info) }
