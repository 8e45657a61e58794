package nethttp

import (
	"errors"
	"net/http"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/keyfuncs"
)

// request returns what the limiter is asked about r, without the key and the cost. label is
// that of the adapter.
func (g *Decider) request(r *http.Request, label string) core.Request {
	if g.label != nil && (limiters.Observed(g.limiter) || g.limiterOf != nil) {
		if found := g.label(r); found != "" {
			label = found
		}
	}
	return core.Request{Label: label, Shadow: g.inShadow(), Status: Status}
}

// costOf returns how many units r costs.
func (c *config) costOf(r *http.Request) int64 {
	if c.cost == nil {
		return 1
	}
	return int64(c.cost(r))
}

// decideByPlan decides a request that has a key into d, by its plan and together with the
// pairs of All. It returns the limiter of the plan, and the fields for the decision.
func (g *Decider) decideByPlan(v visit, request core.Request, d *core.Decision) (*core.Limiter, *fields) {
	r := v.r
	l, limits, err := g.plan(r)
	if err != nil {
		if ended := r.Context().Err(); ended != nil { // the client left while the function waited
			err = ended
		}
		d.Err = err
		limiters.Report(r.Context(), g.limiter, request, *d)
		return g.limiter, g.own // d has no numbers
	}
	request.Limits = limits
	if len(g.all) > 0 {
		return l, g.decideTogether(r, l, request, d)
	}
	*d = v.ask(l, request)
	return l, g.fieldsFor(l, limits)
}

// decideWithoutKey returns the decision on a request for which the key function of a limiter
// returned err, or an empty key if err is nil, and reports it to the limiter's observer. If
// a limiter inside the key function has refused the request, the decision is the one of
// this limiter, which has told its observer.
func decideWithoutKey(r *http.Request, l *core.Limiter, request core.Request, err error) core.Decision {
	if refused, ok := errors.AsType[*keyfuncs.RefusedError](err); ok {
		d := refused.Decision
		d.Allowed = false // whatever the key function has put in: without a key nothing is admitted
		return d
	}
	d := core.Decision{Err: errorOfKey(r, err)}
	limiters.Report(r.Context(), l, request, d)
	return d
}

// errorOfKey returns the error of the decision on a request for which the key function
// returned err, or an empty key if err is nil.
func errorOfKey(r *http.Request, err error) error {
	switch ended := r.Context().Err(); {
	case err == nil:
		return keyfuncs.ErrNoKey
	case errors.Is(err, keyfuncs.ErrNoKey), errors.Is(err, keyfuncs.ErrBadRequest):
		return err
	case ended != nil: // the client left while the key function waited
		return ended
	}
	return &keyError{err}
}
