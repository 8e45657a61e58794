package nethttp

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/errs"
)

// Pair is a limiter, and the function that names the client for it, for [All].
type Pair struct {
	Limiter *core.Limiter
	Key     func(*http.Request) (string, error)
}

// All has other limits decided together with that of the guard, all or nothing: a request
// is admitted by all of them, and what one refuses, none has counted. So a client that its
// own limit refuses does not eat a limit that all clients share:
//
//	everyone := nethttp.Pair{Limiter: global, Key: keyfuncs.Everyone}
//	nethttp.Middleware(perClient, keyfuncs.RemoteIP, nethttp.All(everyone))
//
// The limits are asked in order, that of the guard first, and what was counted before a
// refusal is given back; [core.Together] says what that promises. Give the guard the limit
// that refuses most often, that of the single client. The response has the fields of the
// limit that binds. Several Alls add up.
//
// The key functions are called before any limit is asked, each once; a request without a
// key for one of them is refused. [WithCost], [Shadow] and the skipping options are about the
// request, so about all limits; [WithTiers] and [WithLimits] about the guard's limiter
// alone, and the function of [SkipKeys] gets the guard's key.
func All(pairs ...Pair) Option {
	pairs = slices.Clone(pairs)
	return func(c *config) error {
		if len(pairs) == 0 {
			return errors.New("sash: All without pairs: give at least one, or leave the option out")
		}
		for i, p := range pairs {
			if p.Key == nil {
				return fmt.Errorf("sash: pair %d of All has no key function: give one, such as keyfuncs.Everyone", i)
			}
			if err := checkLimiter(p.Limiter); err != nil {
				return fmt.Errorf("sash: pair %d of All: %s", i, errs.Text(err))
			}
		}
		c.all = append(c.all, pairs...)
		return nil
	}
}

// member is a pair of All, and the fields of its limiter.
type member struct {
	Pair
	fields *limiterFields
}

// decideTogether decides the request own by the limiter of p, and r by the pairs of All.
// It returns the fields of the limiter that binds.
func (g *Decider) decideTogether(r *http.Request, p plan, own core.Request, d *core.Decision) *fields {
	var few [4]core.Pair
	pairs := append(few[:0], core.Pair{Limiter: p.limiter, Request: own})
	for i := range g.members {
		m := &g.members[i]
		request := own
		request.Limits = nil
		name, err := m.Key(r)
		if err != nil || name == "" {
			request.Key, request.Cost = "", 0
			*d = decideWithoutKey(r, m.Limiter, request, err)
			return m.fields.current()
		}
		request.Key = name
		pairs = append(pairs, core.Pair{Limiter: m.Limiter, Request: request})
	}
	var binding int
	if *d, binding = core.Together(r.Context(), pairs...); binding > 0 {
		return g.members[binding-1].fields.current()
	}
	return p.fields
}
