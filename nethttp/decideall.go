package nethttp

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/errs"
	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// Pair is a limiter and its key function, for [DecideAll].
type Pair struct {
	Limiter *core.Limiter
	Key     func(*http.Request) (string, error)
}

// DecideAll decides a request by further limiters too, all or nothing: either all of them admit and count it, or none
// counts it. So the refused requests of a client use up no limit that all clients share:
//
//	allClients := nethttp.Pair{Limiter: global, Key: keyfuncs.AllClients}
//	nethttp.Middleware(perClient, keyfuncs.RemoteIP, nethttp.DecideAll(allClients))
//
// Units that were counted before a refusal are given back; see [core.DecideAll] for the order and the guarantees. Give
// the guard the limiter that refuses most often, that of the single client. The response has the fields of the limit
// that binds. Several DecideAll add up.
//
// The key functions are called before any limiter, each once. A request without a key for one of them is refused.
// [WithCost], [Shadow] and the skipping options hold for all limiters, [WithLimits] and [WithLimiter] for the guard's
// limiter alone. The function of [SkipKeys] gets the guard's key.
func DecideAll(pairs ...Pair) Option {
	pairs = slices.Clone(pairs)
	return option(func(c *guard.Config) error {
		if len(pairs) == 0 {
			return errors.New("sash: DecideAll without pairs: give at least one, or leave the option out")
		}
		for i, p := range pairs {
			if p.Key == nil {
				return fmt.Errorf("sash: pair %d of DecideAll has no key function: "+
					"give one, such as keyfuncs.AllClients", i)
			}
			if err := guard.CheckLimiter(p.Limiter, false); err != nil {
				return fmt.Errorf("sash: pair %d of DecideAll: %s", i, errs.Text(err))
			}
			c.Pairs = append(c.Pairs, guard.Pair(p))
		}
		return nil
	})
}
