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
// What was counted beside a refusal is given back; [core.Together] says in which order the
// limits are asked, and what that promises. Give the guard the limit that refuses most often,
// that of the single client. The response has the fields of the limit that binds. Several
// Alls add up.
//
// The key functions are called before any limit is asked, each once; a request without a
// key for one of them is refused. [WithCost], [Shadow] and the skipping options are about the
// request, so about all limits; [WithLimits] and [WithLimiter] about the guard's limiter
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

// decideTogether decides the request own by the limiter l, and r by the pairs of All. It
// returns the fields of the limiter that binds.
func (g *Decider) decideTogether(r *http.Request, l *core.Limiter, own core.Request, d *core.Decision) *fields {
	var few [4]core.Pair
	pairs := append(few[:0], core.Pair{Limiter: l, Request: own})
	for _, p := range g.all {
		request := own
		request.Limits = nil
		name, err := p.Key(r)
		if err != nil || name == "" {
			request.Key, request.Cost = "", 0
			*d = decideWithoutKey(r, p.Limiter, request, err)
			return g.fieldsFor(p.Limiter, nil)
		}
		request.Key = name
		pairs = append(pairs, core.Pair{Limiter: p.Limiter, Request: request})
	}
	var binding int
	*d, binding = core.Together(r.Context(), pairs...)
	return g.fieldsFor(pairs[binding].Limiter, pairs[binding].Request.Limits)
}
