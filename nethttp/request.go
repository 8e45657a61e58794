package nethttp

import (
	"errors"
	"net/http"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/keyfuncs"
)

// request returns what the limiter is asked about r. label is that of the adapter.
func (g *Decider) request(r *http.Request, label, key string, cost int) core.Request {
	if g.label != nil && g.limiter.Observed() {
		if found := g.label(r); found != "" {
			label = found
		}
	}
	return core.Request{Key: key, Cost: int64(cost), Label: label, Status: Status}
}

// decideWithoutKey returns the decision on a request for which the key function returned
// err, or an empty key if err is nil, and reports it to the limiter's observer. If a
// limiter inside the key function has refused the request, the decision is the one of
// this limiter, which has told its observer.
func (g *Decider) decideWithoutKey(r *http.Request, label string, err error) core.Decision {
	if refused, ok := errors.AsType[*keyfuncs.RefusedError](err); ok {
		d := refused.Decision
		d.Allowed = false // whatever the key function has put in: without a key nothing is admitted
		return d
	}
	d := core.Decision{Err: errorOfKey(r, err)}
	g.limiter.Report(r.Context(), g.request(r, label, "", 0), d)
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
