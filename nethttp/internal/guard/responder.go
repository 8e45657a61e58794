package guard

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/sashlimit/sash/core"
)

// responder sets the fields of responses, and writes refusals.
type responder struct {
	config   Responding
	own      *fields         // for the guard's limiter
	prepared *preparedFields // for other limiters and limits
	limiter  *core.Limiter   // the guard's
}

// newResponder prepares the fields of all limiters.
func newResponder(c Responding, limiter *core.Limiter, all []Pair) (p responder, err error) {
	p = responder{config: c, limiter: limiter}
	p.prepared = &preparedFields{formats: c.Formats, known: map[plannedLimits]*fields{}}
	if p.own, err = prepareFields(c.Formats, limiter.Limits()); err != nil {
		return p, err
	}
	for _, pair := range all {
		if _, err := p.prepared.fields(pair.Limiter, nil); err != nil {
			return p, err
		}
	}
	return p, checkFieldNames(c.Formats)
}

// answer sets the header fields f for the decision of v, and reports whether it admits the request. The fields that are
// about the body of a refusal are set when it is written.
func (p *responder) answer(v *Visit, f *fields) bool {
	d := &v.Decision
	if d.Allowed {
		f.write(v.W, d, nil)
		return true
	}
	limitBodyRead(v.W, v.R)
	p.spread(d)
	v.response = newRefusalResponse(d)
	f.write(v.W, d, &v.response.limit)
	v.response.setFields(v.W.Header())
	return false
}

// spread sets the RetryAfter that the client of a refused request is told.
func (p *responder) spread(d *core.Decision) {
	switch {
	case d.RetryAfter == 0 && reasonOf(d) == noStore:
		d.RetryAfter = draw(p.config.Outage, 2*p.config.Outage)
	case p.config.Jitter > 0 && reasonOf(d) == overLimit:
		d.RetryAfter += draw(0, p.config.Jitter)
	}
}

// draw returns a random whole number of seconds that is neither below least nor above most.
func draw(least, most time.Duration) time.Duration {
	least = (least + time.Second - 1) / time.Second
	return (least + rand.N(most/time.Second-least+1)) * time.Second
}

// refusedBodyWait is the time for which the server goes on reading the body of a
// refused request.
const refusedBodyWait = time.Second

// limitBodyRead bounds the time that the server spends on reading the body of a
// refused request. net/http reads up to 256 KB of the body after the handler, to
// use the connection again, and would wait for a slow client until
// Server.ReadTimeout, or without end. The server sets the deadline anew before the
// next request. Where the ResponseWriter has no deadlines, nothing happens.
//
// ContentLength alone says whether there is a body. An outer handler may have
// replaced r.Body, but the server reads the body that it made itself.
func limitBodyRead(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusedBodyWait))
	}
}

// Refuse writes the response to the request that was refused: with the function of WithRefusal, else with Refuse.
func (v *Visit) Refuse() {
	if refuse := v.decider.responder.config.Refusal; refuse != nil {
		recorded := &recorder{implied: Status(v.Decision)}
		refuse(recorded.around(v.W), v.R, v.Decision)
		if recorded.begun() {
			return
		}
	}
	v.response.write(v.W, v.R, v.Decision.Limit.Name)
}

// RefuseBy is Refuse with a function of the framework's own. If it returns no error and begins no response on w, Refuse
// writes one.
func (v *Visit) RefuseBy(refuse func(w http.ResponseWriter, d core.Decision) error) error {
	recorded := &recorder{implied: Status(v.Decision)}
	err := refuse(recorded.around(v.W), v.Decision)
	if err == nil && !recorded.begun() {
		v.Refuse()
	}
	return err
}
