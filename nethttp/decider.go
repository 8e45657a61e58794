package nethttp

import (
	"errors"
	"net/http"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/internal/underway"
)

// Decider is a [Guard] without a key function: what adapters for other
// frameworks build on, whose keys and route patterns come from the
// framework's own context. It is immutable and safe for concurrent use. Package
// adaptertest proves an adapter.
type Decider struct {
	limiter *core.Limiter
	config
	own      *fields         // those of limiter
	prepared *preparedFields // those of other limiters and limits
	watch    *watch          // nil if no observer would hear of what it sees

	underway *underway.Set // the requests that CountWhen has not been asked about yet
}

// NewDecider returns a Decider for limiter. An error says which argument is
// wrong and what to give instead.
func NewDecider(limiter *core.Limiter, opts ...Option) (*Decider, error) {
	return newDecider(nil, limiter, opts)
}

// newDecider is NewDecider for an adapter with the given settings; nil without.
func newDecider(settings any, limiter *core.Limiter, opts []Option) (*Decider, error) {
	if err := checkLimiter(limiter); err != nil {
		return nil, err
	}
	c := config{formats: []headers.Format{headers.Classic}, outageWait: newWaitRange(defaultWait), settings: settings}
	d := &Decider{limiter: limiter, config: c, underway: new(underway.Set)}
	if err := d.apply(opts); err != nil {
		return nil, nameLimiter(limiter, err)
	}
	d.watch = watchOf(limiter)
	return d, nil
}

// checkLimiter returns an error if the limiter is nil or was not made by core.New.
func checkLimiter(limiter *core.Limiter) error {
	if limiter == nil {
		return errors.New("sash: the limiter is nil: give one made by core.New")
	}
	if len(limiter.Limits()) == 0 {
		return errors.New("sash: the limiter is the zero Limiter and has no limits: give one made by core.New")
	}
	return nil
}

// apply applies the options and prepares the formats. It is called by newDecider only.
func (g *Decider) apply(opts []Option) error {
	for _, o := range opts {
		if o == nil {
			return errors.New("sash: an option is nil: leave it out")
		}
		if err := o(&g.config); err != nil {
			return err
		}
	}
	if err := g.checkAfter(); err != nil {
		return err
	}
	if err := g.prepare(); err != nil {
		return err
	}
	if err := checkFieldNames(g.formats); err != nil {
		return err
	}
	return nil
}

// prepare prepares the fields of all limiters. It is called by apply only.
func (g *Decider) prepare() (err error) {
	if g.own, err = prepareFields(g.formats, g.limiter.Limits()); err != nil {
		return err
	}
	g.prepared = &preparedFields{formats: g.formats, known: map[plannedLimits]*fields{}}
	for _, p := range g.all {
		if _, err := g.prepared.fields(p.Limiter, nil); err != nil {
			return err
		}
	}
	return nil
}

// Decide does all that a guard does but write the refusal: it skips or finds
// the key, asks the limiter, and sets the limit fields and, on a refusal,
// Retry-After and Cache-Control in w's header. label is the route's pattern for
// the observer, never the path itself; empty where the router has not matched.
// [WithLabel] goes before it. The observer hears of every request that is not
// skipped, once, also of one that is refused for want of a key.
// key is called at most once, and not for skipped requests, which are
// allowed with the Source core.Skipped. So are the clients of [SkipKeys].
//
// If the decision is not allowed, the request must not reach its handler, and
// the caller writes the refusal: with Refuse, or natively with the status of
// [Status]. The decision's Err then is nil or one that core.Decision
// describes, or says what is wrong with the key: it matches keyfuncs.ErrNoKey
// or keyfuncs.ErrBadRequest, or wraps the key function's own error. It is for
// logs, not for clients. The decision is that of another limiter if the key
// function returned a keyfuncs.RefusedError. Its RetryAfter is what Retry-After
// says, also where the store could not be asked; see [WithRetryAfter]. A request in
// the shadow (see [Shadow]) is allowed whatever is decided.
func (g *Decider) Decide(
	w http.ResponseWriter, r *http.Request, label string, key func() (string, error),
) (d core.Decision) {
	g.decideAndSetFields(visit{w, r, label, nil}, key, &d)
	return d
}

// Admit is Decide, followed by Refuse if the request is refused. True means go on:
// the limit fields are set. False means that the response is written completely
// and nothing may be added.
func (g *Decider) Admit(w http.ResponseWriter, r *http.Request, label string, key func() (string, error)) bool {
	var d core.Decision
	response := g.decideAndSetFields(visit{w, r, label, nil}, key, &d)
	if !d.Allowed && !g.writeCustomRefusal(w, r, d) {
		response.write(w, r, d.Limit.Name)
	}
	return d.Allowed
}

// visit is a request at a guard, apart from the key function, which would need memory in it.
type visit struct {
	w         http.ResponseWriter
	r         *http.Request
	label     string
	admission *Admission // gets the reservation; nil if what is counted stays counted
}

// ask has the limiter decide the request of the visit.
func (v visit) ask(l *core.Limiter, request core.Request) core.Decision {
	if v.admission == nil {
		return l.Decide(v.r.Context(), request)
	}
	v.admission.reserve(v.r.Context(), l, request)
	return v.admission.reservation.Decision
}

// decideAndSetFields is Decide with the decision in *d. If the request is refused,
// it returns the default response; the fields that are not about the body are set in
// w's header already. Admit writes the response. Decide drops it, and the function
// Refuse makes it again from the decision.
func (g *Decider) decideAndSetFields(
	v visit, key func() (string, error), d *core.Decision,
) (response refusalResponse) {
	r := v.r
	if g.skips(r) {
		d.Allowed, d.Source = true, core.Skipped
		return response
	}
	request := g.request(r, v.label)
	var f *fields
	if name, err := key(); err != nil || name == "" {
		*d, f = decideWithoutKey(r, g.limiter, request, err), g.own
	} else if request.Key = name; g.skipsKey(name) {
		d.Allowed, d.Source = true, core.Skipped
		limiters.Report(r.Context(), g.limiter, request, *d)
		return response
	} else {
		request.Cost = g.costOf(r)
		l := g.limiter
		if g.limits != nil || g.limiterOf != nil || len(g.all) > 0 || v.admission != nil {
			l, f = g.decideByPlan(v, request, d)
		} else { // not by a function of its own, since a Decision is large enough for each copy to be noticed
			*d, f = g.limiter.Decide(r.Context(), request), g.own
		}
		if g.watch.wants(d) {
			g.look(v, l, request, d)
		}
	}
	if request.Shadow {
		letPass(d)
		return response
	}
	return g.answer(v, d, f)
}

// answer sets the header fields f for the decision, and returns the default response if
// the request is refused.
func (g *Decider) answer(v visit, d *core.Decision, f *fields) (response refusalResponse) {
	if d.Allowed {
		f.write(v.w, d, nil)
		return response
	}
	limitBodyRead(v.w, v.r)
	g.spread(d)
	response = newRefusalResponse(d)
	f.write(v.w, d, &response.limit)
	response.setFields(v.w.Header())
	return response
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

// Refuse writes the response to a request that Decide refused: with the
// function of [WithRefusal], else with the function [Refuse].
func (g *Decider) Refuse(w http.ResponseWriter, r *http.Request, d core.Decision) {
	if !g.writeCustomRefusal(w, r, d) {
		Refuse(w, r, d)
	}
}
