package guard

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/errs"
	"github.com/sashlimit/sash/keyfuncs"
)

// plan returns the limiter for the request of v, and sets the limits of the request. If a function of an option fails,
// or returns invalid limits or an invalid cost, it sets the Err of the request.
func (g *Guard) plan(v *Visit, request *core.Request) *core.Limiter {
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
	case none:
		var limited *core.Limiter
		if limited, err = l.WithLimits(request.Limits...); err == nil {
			request.Limits = nil
			return limited
		}
	}
	if err != nil {
		request.Limits, request.Err = nil, fmt.Errorf("%w: %w", core.ErrLimits, err)
	}
	return l
}

// decideAll decides the request own by the limiter l, and the same request by the pairs of DecideAll with their keys.
// It returns the limits of the limiter that binds.
func (g *Guard) decideAll(v *Visit, l *core.Limiter, own *core.Request) []core.Limit {
	var buf [4]core.Pair
	pairs := append(buf[:0], core.Pair{Limiter: l, Request: *own})
	for _, p := range g.config.Pairs {
		request := *own
		request.Limits, request.Err = nil, nil
		key, err := p.Key(v.R)
		if err != nil || key == "" {
			request.Key, request.Cost = "", 0
			decideWithoutKey(v, p.Limiter, &request, err)
			return g.limitsOf(p.Limiter, nil)
		}
		request.Key = key
		pairs = append(pairs, core.Pair{Limiter: p.Limiter, Request: request})
	}
	var binding int
	v.Decision, binding = core.DecideAll(v.R.Context(), pairs...)
	return g.limitsOf(pairs[binding].Limiter, pairs[binding].Request.Limits)
}

// decideWithoutKey decides a request without a key for l, and reports the decision to the observer of l. err is that of
// the key function, nil for an empty key. A keyfuncs.RefusedError gives the decision of the limiter in the key
// function, which has reported it.
func decideWithoutKey(v *Visit, l *core.Limiter, request *core.Request, err error) {
	if refused, ok := errors.AsType[*keyfuncs.RefusedError](err); ok {
		v.Decision = refused.Decision
		v.Decision.Allowed = false // without a key no request is admitted
		return
	}
	switch {
	case err == nil:
		err = keyfuncs.ErrNoKey
	case !errors.Is(err, keyfuncs.ErrNoKey) && !errors.Is(err, keyfuncs.ErrBadRequest):
		err = cmp.Or[error](v.R.Context().Err(), &errs.Error{Err: fmt.Errorf("%w: %w", core.ErrKey, err)})
	}
	v.Decision.Err = err
	l.Report(v.R.Context(), *request, v.Decision)
}
