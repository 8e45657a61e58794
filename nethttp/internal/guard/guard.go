// Package guard implements package nethttp and its adapters. A [Guard] decides requests, sets the header fields of
// responses and writes refusals. An [Admission] settles a request after its handler.
package guard

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/internal/errs"
	"github.com/sashlimit/sash/internal/inflight"
)

// ErrNoKeyFunction is the error of a guard without a key function.
var ErrNoKeyFunction = errors.New("sash: the key function is nil: give one, such as keyfuncs.RemoteIP")

// Guard decides requests by a limiter and a Config. Its configuration does not change; it is safe for concurrent use.
type Guard struct {
	limiter  *core.Limiter
	config   Config
	limits   []core.Limit // of the limiter
	names    []string     // of the fields that the formats write
	watch    *watch
	inflight *inflight.Set // the requests that CountWhen may give back
}

// New returns a Guard for limiter. Each option has a method Apply(*Config) error. adapter becomes the Adapter of the
// Config. An error names the wrong argument and the right form of it.
func New[O any](limiter *core.Limiter, adapter any, opts []O) (*Guard, error) {
	c := Config{Adapter: adapter, Formats: []headers.Format{headers.XRateLimit}, OutageRetryAfter: 5 * time.Second}
	err := apply(&c, opts)
	if err := CheckLimiter(limiter, c.Limiter != nil || c.Limits != nil); err != nil {
		return nil, err
	}
	g := &Guard{limiter: limiter, limits: limiter.Limits(), config: c, watch: new(watch),
		inflight: &inflight.Set{MaxWait: inflight.RetryInterval}}
	if err == nil {
		g.names, err = fieldNames(c.Formats)
	}
	if err != nil && limiter.Name()+limiter.RuleName() != "" {
		err = &errs.Error{Prefix: limiter.String() + ": ", Err: err}
	}
	return g, err
}

// apply applies the options to c.
func apply[O any](c *Config, opts []O) error {
	for _, o := range opts {
		option, ok := any(o).(interface{ Apply(*Config) error })
		if !ok {
			return errors.New("sash: an option is nil: leave it out")
		}
		if err := option.Apply(c); err != nil {
			return err
		}
	}
	return c.check()
}

// CheckLimiter returns an error if the limiter is nil, was not made by core.New, or has no limits. If optional is true,
// it may have none, since an option gives them for each request.
func CheckLimiter(limiter *core.Limiter, optional bool) error {
	switch {
	case limiter == nil, limiter.Policy() == nil:
		return errors.New("sash: the limiter is nil or the zero Limiter: give one made by core.New")
	case !optional && len(limiter.Limits()) == 0:
		return fmt.Errorf("sash: %v has no limits: give one of its rules, which Limiter.Rule makes, "+
			"or give Config.Limits at least one", limiter)
	}
	return nil
}

// WithLabel returns a copy of g that labels requests by the given function. An option for labels has precedence.
func (g *Guard) WithLabel(label func(*http.Request, any) string) *Guard {
	copied := *g
	if g.config.Label == nil {
		copied.config.Label = label
	}
	return &copied
}

// Visit is a request at a Guard. The caller calls Admit, and then Serve or Refuse.
type Visit struct {
	W          http.ResponseWriter
	R          *http.Request
	Context    any    // of an adapter's framework, for the functions of the Config
	Label      string // the route's pattern for the observer; empty where no route has matched
	HasHandler bool   // whether the caller calls Serve for an admitted request

	Decision core.Decision

	guard     *Guard
	sample    *sample    // nil unless the watch has taken one
	admission *Admission // nil unless an option needs it
}

// Admit decides the request of v, sets the limit fields, and reports whether the request may reach its handler. findKey
// is called at most once, and not for a skipped request.
func (g *Guard) Admit(v *Visit, findKey func() (string, error)) bool {
	v.guard = g
	d := &v.Decision
	if g.config.IsSkipped(v.R, v.Context) {
		d.Allowed, d.Source = true, core.SourceSkipped
		return true
	}
	request := core.Request{Label: v.Label, Shadow: g.config.Shadow != nil && g.config.Shadow()}
	if label := g.config.Label; label != nil && (g.limiter.Observed() || g.config.Limiter != nil) {
		request.Label = cmp.Or(label(v.R, v.Context), v.Label) // a chosen limiter may have an observer
	}
	limits := g.limits
	key, err := findKey()
	switch {
	case err != nil || key == "":
		decideWithoutKey(v, g.limiter, &request, err)
	case g.config.isSkippedKey(key):
		request.Key = key
		d.Allowed, d.Source = true, core.SourceSkipped
		g.limiter.Report(v.R.Context(), request, *d)
		return true
	default:
		request.Key, request.Cost = key, 1
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

// decide decides a request that has a key, and returns the limits of the decision. The decision itself goes into v
// without a copy, because it is large.
func (g *Guard) decide(v *Visit, request *core.Request) (limits []core.Limit) {
	l := g.limiter
	if g.config.Limiter != nil || g.config.Limits != nil || request.Cost < 0 {
		l = g.plan(v, request)
	}
	switch {
	case len(g.config.Pairs) > 0:
		limits = g.decideAll(v, l, request)
	case v.HasHandler && (g.config.needsResponse() || g.config.DecisionInContext):
		a := &Admission{guard: g, request: v.R}
		a.reserve(l, request)
		if v.Decision = a.reservation.Decision; v.Decision.Allowed || request.Shadow {
			v.admission = a
		}
		limits = g.limitsOf(l, request.Limits)
	default:
		v.Decision = l.Decide(v.R.Context(), *request)
		limits = g.limitsOf(l, request.Limits)
	}
	if r := v.R; g.watch.sampleNext() || r.Method == "PRI" || r.Header["Upgrade"] != nil {
		g.watch.inspect(v, l, request)
	}
	return limits
}

// Serve calls next with the ResponseWriter and the request of the handler, and settles the request afterwards. For the
// errors of next, beforeSend registers a function that the framework calls just before it sends a status; it may be
// nil.
func (v *Visit) Serve(next func(http.ResponseWriter, *http.Request) error,
	beforeSend func(settle func(status int))) error {
	if v.sample != nil {
		defer lastSample.CompareAndSwap(v.sample, nil)
	}
	if v.admission == nil {
		return next(v.W, v.R)
	}
	return v.admission.serve(v.W, next, beforeSend)
}

// HasRecorder reports whether the handler gets a ResponseWriter of its own, because an option needs the response.
func (v *Visit) HasRecorder() bool { return v.admission != nil && v.guard.config.needsResponse() }
