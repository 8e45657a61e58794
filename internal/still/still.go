// Package still makes limiters for tests in which no time passes.
package still

import (
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// noon is the time of the clock that stands still.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Store returns a new store in memory. Its clock stands still.
func Store() core.Store { return memstore.New(memstore.WithClock(func() time.Time { return noon })) }

// Limiter returns a limiter with a Store of its own.
func Limiter(limits ...core.Limit) *core.Limiter {
	return core.Must(core.New(core.Config{Name: "test", Store: Store(), Limits: limits}))
}
