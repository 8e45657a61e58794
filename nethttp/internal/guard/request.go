package guard

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/keyfuncs"
)

// plan returns the limiter that decides the request of v, and sets the limits of the request. Where the options cannot
// say them, nor the cost, the request has an Err.
func (g *Decider) plan(v *Visit, request *core.Request) *core.Limiter {
	l, err := g.limiter, error(nil)
	if g.config.Limiter != nil {
		var chosen *core.Limiter
		if chosen, err = g.config.Limiter(v.R, v.Context, request.Key); chosen != nil && err == nil {
			if err = CheckLimiter(chosen, false); err == nil {
				l = chosen
			}
		}
	}
	if g.config.Limits != nil && err == nil {
		request.Limits, err = g.config.Limits(v.R, request.Key)
	}
	switch none := l == g.limiter && len(g.limits) == 0; {
	case err != nil:
	case request.Cost < 0:
		err = fmt.Errorf("WithCost returned %d: return 0 or more", request.Cost)
		request.Cost = 1
	case none && request.Limits != nil:
		var planned *core.Limiter
		if planned, err = l.WithLimits(request.Limits...); err == nil {
			request.Limits = nil
			return planned
		}
	case none:
		err = CheckLimiter(l, false)
	}
	if err != nil {
		request.Limits, request.Err = nil, fmt.Errorf("%w: %w", core.ErrLimits, err)
	}
	return l
}

// decideTogether decides the request own by the limiter l, and the request of v by the pairs of Together. It returns
// the limits of the limiter that binds.
func (g *Decider) decideTogether(v *Visit, l *core.Limiter, own *core.Request) []core.Limit {
	var few [4]core.Pair
	pairs := append(few[:0], core.Pair{Limiter: l, Request: *own})
	for _, p := range g.config.Together {
		request := *own
		request.Limits, request.Err = nil, nil
		name, err := p.Key(v.R)
		if err != nil || name == "" {
			request.Key, request.Cost = "", 0
			decideWithoutKey(v, p.Limiter, &request, err)
			return g.limitsOf(p.Limiter, nil)
		}
		request.Key = name
		pairs = append(pairs, core.Pair{Limiter: p.Limiter, Request: request})
	}
	var binding int
	v.Decision, binding = core.DecideAll(v.R.Context(), pairs...)
	return g.limitsOf(pairs[binding].Limiter, pairs[binding].Request.Limits)
}

// decideWithoutKey decides a request for which the key function of a limiter returned err, or an empty key if err is
// nil, and reports the decision to the limiter's observer. If a limiter inside the key function has refused the
// request, the decision is the one of this limiter, which has told its observer.
func decideWithoutKey(v *Visit, l *core.Limiter, request *core.Request, err error) {
	if refused, ok := errors.AsType[*keyfuncs.RefusedError](err); ok {
		v.Decision = refused.Decision
		v.Decision.Allowed = false // whatever the key function has put in: without a key nothing is admitted
		return
	}
	switch {
	case err == nil:
		err = keyfuncs.ErrNoKey
	case !errors.Is(err, keyfuncs.ErrNoKey) && !errors.Is(err, keyfuncs.ErrBadRequest):
		err = endedOr(v.R, &keyError{err})
	}
	v.Decision.Err = err
	l.Report(v.R.Context(), *request, v.Decision)
}

// endedOr returns err, unless the client left while the function waited that has returned it.
func endedOr(r *http.Request, err error) error {
	if ended := r.Context().Err(); ended != nil {
		return ended
	}
	return err
}
