package nethttp

import (
	"errors"
	"net/http"
	"slices"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/keyfuncs"
)

// Decider is a [Guard] without a key function: what adapters for other
// frameworks build on, whose keys and route patterns come from the
// framework's own context. It is immutable and safe for concurrent use.
type Decider struct {
	limiter *core.Limiter
	config
	classic *headers.ClassicWriter             // of the first format that is Classic, or a variant
	write   []func(http.Header, core.Decision) // one for each of the others
}

// NewDecider returns a Decider for limiter. An error says which argument is
// wrong and what to give instead.
func NewDecider(limiter *core.Limiter, opts ...Option) (*Decider, error) {
	return newDecider(nil, limiter, opts)
}

func newDecider(settings any, limiter *core.Limiter, opts []Option) (*Decider, error) {
	if limiter == nil {
		return nil, errors.New("sash: the limiter is nil: give one made by core.New")
	}
	c := config{formats: []headers.Format{headers.Classic}, settings: settings}
	for _, o := range opts {
		if o == nil {
			return nil, errors.New("sash: an option is nil: leave it out")
		}
		if err := o(&c); err != nil {
			return nil, err
		}
	}
	d := &Decider{limiter: limiter, config: c}
	written := map[string]bool{}
	for _, f := range c.formats {
		if err := d.prepare(f); err != nil {
			return nil, err
		}
		for _, name := range f.Names() {
			if written[name] {
				return nil, errors.New("sash: two formats of WithHeaders write the field " + name + ": give one of them, or other names with headers.Classic.WithNames")
			}
			written[name] = true
		}
	}
	for _, f := range c.formats {
		register(f)
	}
	return d, nil
}

// prepare makes d write the fields of f.
func (g *Decider) prepare(f headers.Format) (err error) {
	limits := g.limiter.Limits()
	if classic, ok := f.(headers.ClassicFormat); ok && g.classic == nil {
		g.classic, err = classic.Writer(limits)
		return err
	}
	write, err := f.Prepare(limits)
	g.write = append(g.write, write)
	return err
}

// Decide does all that a guard does but write the refusal: it skips or finds
// the key, asks the limiter, and sets the limit fields and, on a refusal,
// Retry-After and Cache-Control in w's header. label is the route's pattern for
// the observer, never the path itself; empty where the router has not matched.
// key is called at most once, and not for skipped requests, which are
// allowed.
//
// If the decision is not allowed, the request must not reach its handler, and
// the caller writes the refusal: with Refuse, or natively with the status of
// [Status]. The decision's Err then is nil or one that core.Decision
// describes, or says what is wrong with the key: it matches keyfuncs.ErrNoKey,
// or wraps the key function's own error. It is for logs, not for clients.
func (g *Decider) Decide(w http.ResponseWriter, r *http.Request, label string, key func() (string, error)) (d core.Decision) {
	g.decide(w, r, label, key, &d)
	return d
}

// Admit is Decide, and Refuse for a request that is refused. True means go on:
// the limit fields are set. False means that the response is written completely
// and nothing may be added.
func (g *Decider) Admit(w http.ResponseWriter, r *http.Request, label string, key func() (string, error)) bool {
	var d core.Decision
	f := g.decide(w, r, label, key, &d)
	if !d.Allowed && !g.refuses(w, r, d) {
		f.respond(w, r, d.Limit.Name)
	}
	return d.Allowed
}

// decide is Decide. It returns what it began of a refusal, if d is one.
func (g *Decider) decide(w http.ResponseWriter, r *http.Request, label string, key func() (string, error), d *core.Decision) (f refusal) {
	if g.skips(r) {
		d.Allowed = true
		return f
	}
	if name, err := key(); err != nil || name == "" {
		d.Err = noName(r, err)
	} else {
		cost := 1
		if g.cost != nil {
			cost = g.cost(r)
		}
		*d = g.limiter.Decide(r.Context(), core.Request{Key: name, Cost: int64(cost), Label: label})
	}
	if d.Allowed {
		g.setLimitFields(w.Header(), d, nil)
		return f
	}
	f = refusalOf(d)
	g.setLimitFields(w.Header(), d, &f.limit)
	f.announce(w.Header())
	return f
}

// noName is the error of a decision on a request without a key, where the key
// function returned err.
func noName(r *http.Request, err error) error {
	switch ended := r.Context().Err(); {
	case err == nil:
		return keyfuncs.ErrNoKey
	case errors.Is(err, keyfuncs.ErrNoKey):
		return err
	case ended != nil: // the client left while the key function waited
		return ended
	}
	return &keyError{err}
}

// Refuse writes the response to a request that Decide refused: with the
// function of [WithRefusal], else with the function [Refuse].
func (g *Decider) Refuse(w http.ResponseWriter, r *http.Request, d core.Decision) {
	if !g.refuses(w, r, d) {
		Refuse(w, r, d)
	}
}

func (g *Decider) skips(r *http.Request) bool {
	if len(g.paths) > 0 && r.URL.RawPath == "" && slices.Contains(g.paths, r.URL.Path) {
		return true
	}
	for _, skip := range g.skip {
		if skip(r) {
			return true
		}
	}
	return false
}

// keyError marks an error of a key function, which may match anything else.
type keyError struct{ err error }

func (e *keyError) Error() string { return "sash: the key function failed: " + e.err.Error() }
func (e *keyError) Unwrap() error { return e.err }

func isKeyError(err error) bool { _, ok := errors.AsType[*keyError](err); return ok }
