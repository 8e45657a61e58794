package guard

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/sashlimit/sash/core"
)

// answer sets the header fields for the decision of v by the limits, and reports whether it admits the request. For a
// refusal it first sets the random part of the decision's RetryAfter, and a deadline for the body of the request. The
// fields about the body of a refusal are set with the body.
func (g *Guard) answer(v *Visit, limits []core.Limit) bool {
	d := &v.Decision
	if d.Allowed {
		g.writeFields(v.W.Header(), limits, d)
		return true
	}
	limitBodyRead(v.W, v.R)
	why := reasonOf(d)
	switch {
	case d.RetryAfter == 0 && why == unavailable:
		d.RetryAfter = randomSeconds(g.config.OutageRetryAfter, 2*g.config.OutageRetryAfter)
	case g.config.Jitter > 0 && why == overLimit:
		d.RetryAfter += randomSeconds(0, g.config.Jitter)
	}
	g.dropFields(v.W)
	g.writeFields(v.W.Header(), limits, d)
	why.setFields(v.W.Header(), d)
	return false
}

// randomSeconds returns a random whole number of seconds from lo to hi.
func randomSeconds(lo, hi time.Duration) time.Duration {
	lo = (lo + time.Second - 1) / time.Second
	return (lo + rand.N(hi/time.Second-lo+1)) * time.Second
}

// bodyReadTimeout bounds the time that the server spends on the body of a refused request.
const bodyReadTimeout = time.Second

// limitBodyRead sets a read deadline of bodyReadTimeout for the body of a refused request. Before it answers, net/http
// reads up to 256 KB of the body to reuse the connection, and would wait for a slow client until Server.ReadTimeout, or
// without end. The server sets a new deadline before the next request. If the ResponseWriter has no deadlines, the
// response has Connection: close: then net/http answers first. HTTP/2 does not wait for the body, and there this field
// would make the server send GOAWAY, which ends the connection after its open streams.
//
// ContentLength alone says whether there is a body: an outer handler may have replaced r.Body, but the server reads its
// own.
func limitBodyRead(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 {
		return
	}
	err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyReadTimeout))
	if err != nil && r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
}

// Refuse writes the response to a refused request by the function of WithRefusal, whose error it returns. If there is
// none, or it returns nil without a response, the function Refuse writes it.
func (v *Visit) Refuse() error {
	if refuse := v.guard.config.Refusal; refuse != nil {
		rec := &recorder{defaultStatus: Status(v.Decision)}
		if err := refuse(rec.wrap(v.W), v.R, v.Context, v.Decision); err != nil || rec.started() {
			return err
		}
	}
	Refuse(v.W, v.Decision)
	return nil
}
