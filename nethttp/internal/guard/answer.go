package guard

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/sashlimit/sash/core"
)

// answer sets the header fields for the decision of v by the limits, and reports whether it admits the request. The
// fields that are about the body of a refusal are set when it is written.
func (g *Decider) answer(v *Visit, limits []core.Limit) bool {
	d := &v.Decision
	if d.Allowed {
		g.writeFields(v.W.Header(), limits, d)
		return true
	}
	limitBodyRead(v.W, v.R)
	switch why := reasonOf(d); {
	case d.RetryAfter == 0 && why == noStore:
		d.RetryAfter = draw(g.config.Outage, 2*g.config.Outage)
	case g.config.Jitter > 0 && why == overLimit:
		d.RetryAfter += draw(0, g.config.Jitter)
	}
	v.response = newRefusalResponse(d)
	g.dropFields(v.W)
	g.writeFields(v.W.Header(), limits, d)
	v.response.setFields(v.W.Header())
	return false
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
// refused request. net/http reads up to 256 KB of the body, to use the connection
// again, before it answers, and would wait for a slow client until
// Server.ReadTimeout, or without end. The server sets the deadline anew before the
// next request. Where the ResponseWriter has no deadlines, the connection is to
// close: then net/http answers first. HTTP/2 never waits, and would close the
// connection under its other requests.
//
// ContentLength alone says whether there is a body. An outer handler may have
// replaced r.Body, but the server reads the body that it made itself.
func limitBodyRead(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 {
		return
	}
	err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusedBodyWait))
	if err != nil && r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
}

// Refuse writes the response to the request that was refused: with the function of WithRefusal, else with Refuse.
func (v *Visit) Refuse() {
	if refuse := v.decider.config.Refusal; refuse != nil {
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
