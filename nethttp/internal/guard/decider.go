// Package guard is the inside of package nethttp and its adapters. A [Decider] decides requests, a responder sets the
// fields of their responses and writes refusals, and an [Admission] follows their handlers.
package guard

import (
	"errors"
	"net/http"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/internal/underway"
)

// Decider decides requests by a limiter and a Config. It is immutable and safe for concurrent use.
type Decider struct {
	limiter   *core.Limiter
	deciding  Deciding
	responder responder
	following Following
	watch     *watch        // nil if no observer would hear of what it sees
	underway  *underway.Set // the requests that CountWhen has not been asked about yet
}

// New returns a Decider for limiter, whose options change a Config. An error says which argument is wrong and what to
// give instead. adapter is the Adapter of the Config.
func New[O ~func(*Config) error](limiter *core.Limiter, adapter any, opts []O) (*Decider, error) {
	if err := CheckLimiter(limiter); err != nil {
		return nil, err
	}
	c := Config{Adapter: adapter}
	c.Responding.Formats, c.Responding.Outage = []headers.Format{headers.Classic}, 5*time.Second
	err := apply(&c, opts)
	d := &Decider{limiter: limiter, deciding: c.Deciding, following: c.Following, underway: new(underway.Set)}
	if err == nil {
		d.responder, err = newResponder(c.Responding, limiter, c.Deciding.All)
	}
	if err != nil {
		return nil, nameLimiter(limiter, err)
	}
	d.watch = watchOf(limiter)
	return d, nil
}

// apply applies the options to c.
func apply[O ~func(*Config) error](c *Config, opts []O) error {
	for _, o := range opts {
		if o == nil {
			return errors.New("sash: an option is nil: leave it out")
		}
		if err := o(c); err != nil {
			return err
		}
	}
	return c.check()
}

// CheckLimiter returns an error if the limiter is nil or was not made by core.New.
func CheckLimiter(limiter *core.Limiter) error {
	if limiter == nil {
		return errors.New("sash: the limiter is nil: give one made by core.New")
	}
	if len(limiter.Limits()) == 0 {
		return errors.New("sash: the limiter is the zero Limiter and has no limits: give one made by core.New")
	}
	return nil
}

// Labelled returns a copy of g that labels requests by a function, unless an option says how to label.
func (g *Decider) Labelled(label func(*http.Request) string) *Decider {
	if g.deciding.Label != nil {
		return g
	}
	labelled := *g
	labelled.deciding.Label = label
	return &labelled
}

// Visit is a request at a Decider. It stays on the stack of the caller, which calls Admit, and then Refuse, or Leave
// after the handler.
type Visit struct {
	W       http.ResponseWriter
	R       *http.Request
	Label   string // the route's pattern for the observer; empty where no route has matched
	Follows bool   // whether the caller lets the Admission follow the handler

	Decision  core.Decision
	Admission *Admission // nil if there is nothing to follow

	decider  *Decider
	response refusalResponse
}

// Admit decides the request of v and sets the limit fields. If it returns false, the request must not reach its
// handler, and the caller calls Refuse. key is called at most once, and not for a request that is skipped.
func (g *Decider) Admit(v *Visit, key func() (string, error)) bool {
	v.decider = g
	d := &v.Decision
	if g.deciding.Skips(v.R) {
		d.Allowed, d.Source = true, core.SourceSkipped
		return true
	}
	request := core.Request{Label: g.label(v), Status: Status,
		Shadow: g.deciding.Shadow != nil && g.deciding.Shadow()}
	f := g.responder.own
	name, err := key()
	switch {
	case err != nil || name == "":
		decideWithoutKey(v, g.limiter, &request, err)
	case g.deciding.skipsKey(name):
		request.Key = name
		d.Allowed, d.Source = true, core.SourceSkipped
		limiters.Report(v.R.Context(), g.limiter, request, *d)
		return true
	default:
		request.Key, request.Cost = name, g.deciding.costOf(v.R)
		f = g.decide(v, &request)
	}
	if request.Shadow {
		d.Allowed, d.RetryAfter = true, 0 // so that the request goes on
		return true
	}
	return g.responder.answer(v, f)
}

// label returns the label of the request of v.
func (g *Decider) label(v *Visit) string {
	if g.deciding.Label != nil && (limiters.Observed(g.limiter) || g.deciding.Limiter != nil) {
		if found := g.deciding.Label(v.R); found != "" {
			return found
		}
	}
	return v.Label
}

// decide decides a request that has a key, and returns the fields for the decision. A Decision is so large that each
// copy is noticed.
func (g *Decider) decide(v *Visit, request *core.Request) (f *fields) {
	l, err := g.plan(v.R, request)
	switch {
	case err != nil:
		v.Decision.Err = endedOr(v.R, err)
		limiters.Report(v.R.Context(), g.limiter, *request, v.Decision)
		return g.responder.own // the decision has no numbers
	case len(g.deciding.All) > 0:
		f = g.decideTogether(v, l, request)
	case v.Follows && (g.following.looks() || g.following.InContext):
		a := &Admission{decider: g, request: v.R}
		a.reserve(l, request)
		if v.Decision = a.reservation.Decision; v.Decision.Allowed || request.Shadow {
			v.Admission = a
		}
		f = g.responder.fieldsFor(l, request.Limits)
	default:
		v.Decision = l.Decide(v.R.Context(), *request)
		f = g.responder.fieldsFor(l, request.Limits)
	}
	if g.watch.wants(&v.Decision) {
		g.look(v, l, request)
	}
	return f
}

// Leave tells that the handlers of a request that was admitted have returned: else a ResponseWriter that is used again,
// as in benchmarks, looks like a request that is counted twice.
func (v *Visit) Leave() {
	if g := v.decider; g.watch != nil && g.watch.sighted.Load() != nil {
		g.watch.forget(v.W)
	}
}
