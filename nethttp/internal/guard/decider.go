// Package guard is the inside of package nethttp and its adapters. A [Decider] decides requests, sets the fields of
// responses and writes refusals, and an [Admission] follows the handlers.
package guard

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/internal/errs"
	"github.com/sashlimit/sash/internal/inflight"
)

// Decider decides requests by a limiter and a Config. It is immutable and safe for concurrent use.
type Decider struct {
	limiter  *core.Limiter
	config   Config
	limits   []core.Limit // of the limiter
	names    []string     // of the fields that the formats write
	watch    *watch
	underway *inflight.Set // the requests that CountWhen has not been asked about yet
}

// New returns a Decider for limiter. The options have a method Apply(*Config) error; adapter is the Adapter of the
// Config. An error says which argument is wrong and what to give instead.
func New[O any](limiter *core.Limiter, adapter any, opts []O) (*Decider, error) {
	c := Config{Adapter: adapter, Formats: []headers.Format{headers.Classic}, Outage: 5 * time.Second}
	err := apply(&c, opts)
	if err := CheckLimiter(limiter, c.Limiter != nil || c.Limits != nil); err != nil {
		return nil, err
	}
	d := &Decider{limiter: limiter, limits: limiter.Limits(), config: c, watch: new(watch),
		underway: &inflight.Set{MaxWait: inflight.Moment}}
	if err == nil {
		d.names, err = fieldNames(c.Formats)
	}
	if err != nil && limiter.Name()+limiter.RuleName() != "" {
		err = &errs.Error{Prefix: limiter.String() + ": ", Err: err}
	}
	return d, err
}

// apply applies the options to c.
func apply[O any](c *Config, opts []O) error {
	for _, o := range opts {
		given, ok := any(o).(interface{ Apply(*Config) error })
		if !ok {
			return errors.New("sash: an option is nil: leave it out")
		}
		if err := given.Apply(c); err != nil {
			return err
		}
	}
	return c.check()
}

// CheckLimiter returns an error if the limiter is nil, was not made by core.New, or has no limits although options do
// not plan them for each request.
func CheckLimiter(limiter *core.Limiter, planned bool) error {
	switch {
	case limiter == nil, limiter.Policy() == nil:
		return errors.New("sash: the limiter is nil or the zero Limiter: give one made by core.New")
	case !planned && len(limiter.Limits()) == 0:
		return fmt.Errorf("sash: %v has no limits: give one of its rules, which Limiter.Rule makes, "+
			"or give Config.Limits at least one", limiter)
	}
	return nil
}

// Labelled returns a copy of g that labels requests by a function, unless an option says how to label.
func (g *Decider) Labelled(label func(*http.Request, any) string) *Decider {
	labelled := *g
	if g.config.Label == nil {
		labelled.config.Label = label
	}
	return &labelled
}

// Visit is a request at a Decider. It stays on the stack of the caller, which calls Admit, and then Serve or Refuse.
type Visit struct {
	W       http.ResponseWriter
	R       *http.Request
	Context any    // of an adapter's framework, for the functions of the Config
	Label   string // the route's pattern for the observer; empty where no route has matched
	Follows bool   // whether the caller calls Serve

	Decision core.Decision

	decider   *Decider
	sighted   *sighting  // of this request; nil if the watch has not sighted it
	admission *Admission // nil if there is nothing to follow
	response  refusalResponse
}

// Admit decides the request of v and sets the limit fields. If it returns false, the request must not reach its
// handler, and the caller calls Refuse. key is called at most once, and not for a request that is skipped.
func (g *Decider) Admit(v *Visit, key func() (string, error)) bool {
	v.decider = g
	d := &v.Decision
	if g.config.Skips(v.R, v.Context) {
		d.Allowed, d.Source = true, core.SourceSkipped
		return true
	}
	request := core.Request{Label: v.Label, Shadow: g.config.Shadow != nil && g.config.Shadow()}
	if g.config.Label != nil {
		g.label(v, &request)
	}
	limits := g.limits
	name, err := key()
	switch {
	case err != nil || name == "":
		decideWithoutKey(v, g.limiter, &request, err)
	case g.config.skipsKey(name):
		request.Key = name
		d.Allowed, d.Source = true, core.SourceSkipped
		g.limiter.Report(v.R.Context(), request, *d)
		return true
	default:
		request.Key, request.Cost = name, 1
		if g.config.Cost != nil {
			request.Cost = int64(g.config.Cost(v.R, v.Context))
		}
		limits = g.decide(v, &request)
	}
	if request.Shadow {
		d.Allowed, d.RetryAfter = true, 0 // so that the request goes on
		return true
	}
	return g.answer(v, limits)
}

// label labels a request by the function of the option, if there is an observer.
func (g *Decider) label(v *Visit, request *core.Request) {
	if g.limiter.Observed() || g.config.Limiter != nil {
		if found := g.config.Label(v.R, v.Context); found != "" {
			request.Label = found
		}
	}
}

// decide decides a request that has a key, and returns the limits that have decided. A Decision is so large that each
// copy is noticed.
func (g *Decider) decide(v *Visit, request *core.Request) (limits []core.Limit) {
	l := g.limiter
	if g.config.Limiter != nil || g.config.Limits != nil || request.Cost < 0 {
		l = g.plan(v, request)
	}
	switch {
	case len(g.config.Together) > 0:
		limits = g.decideTogether(v, l, request)
	case v.Follows && (g.config.looks() || g.config.InContext):
		a := &Admission{decider: g, request: v.R}
		a.reserve(l, request)
		if v.Decision = a.reservation.Decision; v.Decision.Allowed || request.Shadow {
			v.admission = a
		}
		limits = g.limitsOf(l, request.Limits)
	default:
		v.Decision = l.Decide(v.R.Context(), *request)
		limits = g.limitsOf(l, request.Limits)
	}
	if r := v.R; g.watch.looks() || r.Method == "PRI" || r.Header["Upgrade"] != nil {
		g.watch.look(v, l, request)
	}
	return limits
}

// Serve calls next with what the handler of the admitted request is to get, and settles the request afterwards.
// whenSent has then called just before the response's status is sent, for the errors of next; it may be nil.
func (v *Visit) Serve(next func(http.ResponseWriter, *http.Request) error,
	whenSent func(then func(status int))) error {
	if v.sighted != nil {
		defer sighted.CompareAndSwap(v.sighted, nil)
	}
	if v.admission == nil {
		return next(v.W, v.R)
	}
	return v.admission.follow(v.W, next, whenSent)
}

// Looks reports whether the handler gets a ResponseWriter of its own, since an option looks at the response.
func (v *Visit) Looks() bool { return v.admission != nil && v.decider.config.looks() }
