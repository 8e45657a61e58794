package redisstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/remember"
	"github.com/sashlimit/sash/internal/redistest"
)

// What the tests of package redisstore_test see of the inside.

const AskAgain = remember.AskAgain

// breakersOf are the breakers of a store, by the address of the server: "" is
// the only server, or stands for those that are not known.
func breakersOf(s *Store) map[string]*breaker {
	c := &s.client
	all := map[string]*breaker{"": c.first.breaker}
	c.nodes.mu.Lock()
	defer c.nodes.mu.Unlock()
	for node, server := range c.nodes.byClient {
		all[node.Options().Addr] = server.breaker
	}
	return all
}

func (b *breaker) Allow() (func(error), error) { return b.current.Load().Allow() }
func (b *breaker) State() gobreaker.State      { return b.current.Load().State() }
func (b *breaker) Counts() gobreaker.Counts    { return b.current.Load().Counts() }

// BreakerState is the state of the breaker of the server at addr, or "" if the
// server is not known.
func BreakerState(s *Store, addr string) string {
	if b := breakersOf(s)[addr]; b != nil {
		return b.State().String()
	}
	return ""
}

// BreakerFailures is how many failures a closed breaker has seen.
func BreakerFailures(s *Store, addr string) int {
	return int(breakersOf(s)[addr].Counts().TotalFailures)
}

// HoldBreakersClosed makes the breakers of all servers that are known such that
// they never open.
func HoldBreakersClosed(s *Store) {
	for _, b := range breakersOf(s) {
		b.current.Store(gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
			ReadyToTrip: func(gobreaker.Counts) bool { return false },
		}))
	}
}

// Settle waits until no connection is in the making: each is made by a script. A busy machine makes more of them.
func Settle(t testing.TB, s *Store) {
	t.Helper()
	redistest.WaitFor(t, "connections to be made", func() error {
		for addr, b := range breakersOf(s) {
			b.connections.mu.Lock()
			making := b.connections.making
			b.connections.mu.Unlock()
			if making > 0 {
				return fmt.Errorf("%d are in the making to %q", making, addr)
			}
		}
		return nil
	})
}

// Calls is how many calls to Redis are under way.
func Calls(s *Store) int { return len(s.client.calls) }

// Keys are the Redis keys of a client, a limit each.
func Keys(s *Store, l *core.Limiter, client string) []string {
	ledger := s.newLedger(core.Binding{Name: l.Name(), Rule: l.RuleName(), Limits: l.Limits()})
	var keys []string
	for _, k := range ledger.rule.Keys(nil, client) {
		keys = append(keys, k.(string))
	}
	return keys
}

// CheckInfo is what Check makes of a reply to INFO.
func CheckInfo(addr, info string) []error { return checkInfo(addr, info) }

// CheckTimeouts is what Check makes of a round trip, a new connection and the shortest timeout.
func CheckTimeouts(addr string, roundTrip, connecting, shortest time.Duration) error {
	return checkTimeouts(addr, roundTrip, connecting, shortest)
}

// Commands are what Check tells an operator to allow.
const Commands = commands

// Joined reports whether requests of several clients share scripts.
func Joined(s *Store) bool { return s.client.joint.mode.Load() == joined }

// Join has a store find out whether they may, which it does at first use otherwise.
func Join(s *Store) error {
	mode, err := s.probe(context.Background())
	if s.client.learn(mode); !Joined(s) {
		return fmt.Errorf("not joined: %w", err)
	}
	return nil
}
