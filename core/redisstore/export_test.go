package redisstore

import (
	"context"
	"math"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/server"
)

// What the tests of package redisstore_test see of the inside.

// HoldBreakersClosed makes the store forget its servers, and their breakers never open. No decision may be in flight.
func HoldBreakersClosed(s *Store) {
	config := server.Config{Prefix: s.prefix, SharedScripts: !s.noSharedScripts, MaxFailures: math.MaxInt}
	s.client = server.New(s.client.RDB, config)
}

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

// CanShareScripts reports whether requests of several clients may share a script, and lets them if so.
func CanShareScripts(s *Store) (bool, error) {
	return s.client.Default.ShareScripts(context.Background())
}
