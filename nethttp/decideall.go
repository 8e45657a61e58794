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

// Pair is a limiter, and the function that names the client for it, for [DecideAll].
type Pair struct {
	Limiter *core.Limiter
	Key     func(*http.Request) (string, error)
}

// DecideAll has other limits decided together with that of the guard, all or nothing: a request
// is admitted by all of them, and what one refuses, none has counted. So a client that its
// own limit refuses does not eat a limit that all clients share:
//
//	everyone := nethttp.Pair{Limiter: global, Key: keyfuncs.AllClients}
//	nethttp.Middleware(perClient, keyfuncs.RemoteIP, nethttp.DecideAll(everyone))
//
// What was counted beside a refusal is given back; [core.DecideAll] says in which order the
// limits are asked, and what that promises. Give the guard the limit that refuses most often,
// that of the single client. The response has the fields of the limit that binds. Several
// of them add up.
//
// The key functions are called before any limit is asked, each once; a request without a
// key for one of them is refused. [WithCost], [Shadow] and the skipping options are about the
// request, so about all limits; [WithLimits] and [WithLimiter] about the guard's limiter
// alone, and the function of [SkipKeys] gets the guard's key.
func DecideAll(pairs ...Pair) Option {
	pairs = slices.Clone(pairs)
	return option(func(c *guard.Config) error {
		if len(pairs) == 0 {
			return errors.New("sash: DecideAll without pairs: give at least one, or leave the option out")
		}
		for i, p := range pairs {
			if p.Key == nil {
				return fmt.Errorf("sash: pair %d of DecideAll has no key function: give one, such as keyfuncs.AllClients", i)
			}
			if err := guard.CheckLimiter(p.Limiter, false); err != nil {
				return fmt.Errorf("sash: pair %d of DecideAll: %s", i, errs.Text(err))
			}
		}
		for _, p := range pairs {
			c.Pairs = append(c.Pairs, guard.Pair(p))
		}
		return nil
	})
}
