// Package remotetest simulates a remote store in a bubble of testing/synctest: a server that decides by the model, and
// the ledgers that redisstore puts before its server. It is for tests of packages that build on remote stores.
//
//	server := remotetest.NewServer(0, core.PerMinute(100))
//	d := server.Decide(server.Now(), core.Ask{Key: "client", Cost: 1})
package remotetest

import (
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/denycache"
	"github.com/sashlimit/sash/core/internal/fakeserver"
	"github.com/sashlimit/sash/core/internal/lease"
)

// Server is a simulated server with the logs of one client.
type Server = fakeserver.Server

// NewServer returns an empty server whose clock is ahead by skew. Every limit must be a SlidingLog.
func NewServer(skew time.Duration, limits ...core.Limit) *Server {
	return fakeserver.New(skew, limits...)
}

// Wrap puts a cache of refusals before the ledger, and with leased also leases of 1,000 units for half a second.
func Wrap(b core.Binding, ledger core.Ledger, leased bool) core.Ledger {
	ledger = denycache.New().Wrap(b, ledger)
	if leased {
		terms := lease.Terms{Size: 1000, Lifetime: 500 * time.Millisecond}
		ledger = lease.NewTable(terms).Wrap(ledger, b.Limits)
	}
	return ledger
}
