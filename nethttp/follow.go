package nethttp

import (
	"context"
	"net/http"

	"github.com/sashlimit/sash/core"
)

// Follows reports whether an option needs to know what the handler does. An adapter then
// calls Reserve where it else calls Admit.
func (g *Decider) Follows() bool { return g.looksAfter() || g.inContext }

// Reserve is Decide for an adapter that lets the Admission follow the handler: by
// [Admission.Serve], or by [Admission.Request] and [Admission.Follow]. The Admission is nil
// if the request is refused or skipped, or if Follows is false; its methods for adapters
// may be called all the same. Until one of them ends, other requests of the client may wait
// for this one; see [CountWhen].
func (g *Decider) Reserve(
	w http.ResponseWriter, r *http.Request, label string, key func() (string, error),
) (d core.Decision, a *Admission) {
	if !g.Follows() {
		return g.Decide(w, r, label, key), nil
	}
	a = &Admission{decider: g, request: r}
	g.decideAndSetFields(visit{w, r, label, a}, key, &d)
	if !d.Allowed || a.reservation == nil {
		return d, nil
	}
	return d, a
}

// Serve calls next with the ResponseWriter and the request for the handler, settles the
// request afterwards, and returns the error of next. If an option looks at the status, fail
// is given the error before, and sends the status; it may be nil if there are no errors.
func (a *Admission) Serve(w http.ResponseWriter, r *http.Request,
	next func(http.ResponseWriter, *http.Request) error, fail func(error)) (err error) {
	if a == nil || !a.decider.looksAfter() {
		return next(w, a.Request(r))
	}
	recorded := &recorder{ResponseWriter: w}
	a.Follow(func() {
		if err = next(recorded.exposed(), a.Request(r)); err != nil {
			fail(err)
		}
	}, recorded)
	return err
}

// Request returns r as the handler is to get it. It is called before Follow.
func (a *Admission) Request(r *http.Request) *http.Request {
	if a == nil {
		return r
	}
	if a.decider.inContext {
		r = r.WithContext(context.WithValue(r.Context(), admissionKey{}, a))
	}
	a.request = r
	return r
}

// Response is what an adapter knows about a response when the handler has returned.
type Response interface {
	Status() int    // sent or set; 0 if none; not that of an interim response
	Written() bool  // the status was sent
	Size() int      // bytes of the body; negative if there is none
	Hijacked() bool // the handler has taken over the connection
}

// Follow calls next and settles the request by the response afterwards, also if next
// panics.
func (a *Admission) Follow(next func(), response Response) {
	if a == nil || !a.decider.looksAfter() {
		next()
		return
	}
	panicked := true
	defer a.done()
	defer func() { a.settleBy(response, panicked) }()
	next()
	panicked = false
}

// settleBy settles the request as the function of CountWhen or CostAfter says. If the
// handler has done so, or the store fails, the units stay counted.
func (a *Admission) settleBy(response Response, panicked bool) {
	r := a.request
	status, known := finalStatus(response, panicked, r.Context().Err() != nil)
	if !known {
		return
	}
	cost := 0
	if a.decider.costAfter != nil {
		size := max(0, response.Size())
		if r.Method == http.MethodHead {
			size = 0 // the server drops the body
		}
		cost = a.decider.costAfter(r, status, int64(size))
	} else if a.decider.countWhen(r, status) {
		return
	}
	_ = a.Settle(r.Context(), int64(cost))
}

// finalStatus returns the status for the function of an option, and reports whether it is
// known; see CountWhen. ended says that the context of the request has ended.
func finalStatus(response Response, panicked, ended bool) (status int, known bool) {
	status = response.Status()
	if status == 0 { // net/http sends a 200
		status = http.StatusOK
	}
	switch {
	case response.Hijacked():
		return http.StatusSwitchingProtocols, true
	case response.Written():
		return status, true
	case ended && (panicked || status == http.StatusOK):
		return 0, false
	case panicked:
		return http.StatusInternalServerError, true
	}
	return status, true
}
