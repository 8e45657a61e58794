package redisstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/server"
	"github.com/sashlimit/sash/internal/redistest"
)

// What the tests of package redisstore_test see of the inside.

// HoldBreakersClosed makes the breakers of all servers that are known such that
// they never open.
func HoldBreakersClosed(s *Store) {
	for _, own := range s.client.Servers() {
		own.HoldClosed()
	}
}

// Settle waits until no connection is in the making: each is made by a script. A busy machine makes more of them.
func Settle(t testing.TB, s *Store) {
	t.Helper()
	redistest.WaitFor(t, "connections to be made", func() error {
		for _, own := range s.client.Servers() {
			if making := own.Making(); making > 0 {
				return fmt.Errorf("%d are in the making to %q", making, own.Addr())
			}
		}
		return nil
	})
}

// Calls is how many calls to Redis are under way.
func Calls(s *Store) int { return s.client.Calls() }

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

// CheckTimeouts is what Check makes of a round trip and the shortest timeout.
func CheckTimeouts(addr string, roundTrip, shortest time.Duration) error {
	return checkTimeouts(addr, roundTrip, shortest)
}

// Commands are what Check tells an operator to allow.
const Commands = server.Commands

// Joined reports whether requests of several clients share scripts.
func Joined(s *Store) bool { return s.joint.mode.Load() == joined }

// Join has a store find out whether they may, which it does at first use otherwise.
func Join(s *Store) error {
	mode, err := s.probe(context.Background())
	if s.learn(mode); !Joined(s) {
		return fmt.Errorf("not joined: %w", err)
	}
	return nil
}
