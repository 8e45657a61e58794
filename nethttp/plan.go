package nethttp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
)

// WithLimits sets the limits for each request, such as numbers that a database has for
// the client: limits returns one limit for each limit of the limiter, in the same order,
// with other Requests. They are decided on the limiter's own counts, so that a client
// whose numbers change keeps what it has used; see [core.Request]. nil stands for the
// limits of the limiter. All header fields tell the client these numbers; RateLimit-Policy
// too.
//
// limits is called for each request that is not skipped and has a key, by many goroutines
// at once, and must not read the body. It is to be quick: keep the numbers in memory for
// some seconds. The guard does not change the slice, so that limits may return the same
// one again. If limits returns an error, or limits that are not the limiter's but for
// their Requests, the request is answered with 500, and the observer hears of it; return
// nil, nil to go on with the limiter's limits instead. The error matches core.ErrLimits
// or core.ErrInvalid.
func WithLimits(limits func(*http.Request) ([]core.Limit, error)) Option {
	return func(c *config) error {
		if limits == nil {
			return errors.New("sash: WithLimits(nil): give a func(*http.Request) ([]core.Limit, error), " +
				"or leave the option out for the limits of the limiter")
		}
		c.limits = limits
		return nil
	}
}

// WithLimiter sets the limiter that decides each request, such as that of the plan that
// the client pays for, with windows of its own; nil stands for the guard's limiter. Make
// the limiters once, with [core.Limiter.WithLimits] of the guard's limiter: then a client
// that changes its plan keeps what it has used under the limits that both plans have.
//
//	free := core.Must(core.New(core.Config{Name: "api", Store: store, Limits: []core.Limit{core.PerMinute(60)}}))
//	pro := core.Must(free.WithLimits(core.PerMinute(600), core.PerDay(100_000)))
//	nethttp.WithLimiter(func(r *http.Request) (*core.Limiter, error) {
//		if isPro(r) {
//			return pro, nil
//		}
//		return nil, nil
//	})
//
// Any limiter will do, on any store: its counts, its policy and its observer are those of
// the request, and what is given back after the handler goes back to it. The guard's own
// limiter hears of requests that are skipped or have no key. With [WithLimits] too, the
// numbers are those of the limiter that decides.
//
// limiter is called as the function of WithLimits is, before it. If it returns an error, or
// the zero Limiter, the request is answered with 500, and the observer of the guard's
// limiter hears of an error that matches core.ErrLimits.
func WithLimiter(limiter func(*http.Request) (*core.Limiter, error)) Option {
	return func(c *config) error {
		if limiter == nil {
			return errors.New("sash: WithLimiter(nil): give a func(*http.Request) (*core.Limiter, error), " +
				"or leave the option out for the guard's own limiter")
		}
		c.limiterOf = limiter
		return nil
	}
}

// plan returns the limiter that decides r, and the limits for Request.Limits.
func (g *Decider) plan(r *http.Request) (l *core.Limiter, limits []core.Limit, err error) {
	l = g.limiter
	if g.limiterOf != nil {
		chosen, err := g.limiterOf(r)
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("%w: the function of WithLimiter failed: %w", core.ErrLimits, err)
		case chosen != nil && chosen.Policy() == nil: // every limiter of core.New has one
			return nil, nil, fmt.Errorf("%w: the function of WithLimiter returned the zero Limiter: "+
				"return one made by core.New, or nil for the guard's own", core.ErrLimits)
		case chosen != nil:
			l = chosen
		}
	}
	if g.limits == nil {
		return l, nil, nil
	}
	if limits, err = g.limits(r); err != nil {
		err = fmt.Errorf("%w: the function of WithLimits failed: %w", core.ErrLimits, err)
	}
	return l, limits, err
}

// fieldsFor returns the fields for the decisions of l by limits, which have not been
// checked: a decision by limits that are wrong has none. nil stands for those of l.
func (g *Decider) fieldsFor(l *core.Limiter, limits []core.Limit) *fields {
	if l == g.limiter && limits == nil || limits != nil && len(g.own.writers) == 0 {
		return g.own // a Classic format needs to know no limits beforehand
	}
	f, err := g.prepared.fields(l, limits)
	if err != nil { // of a format of the user's own
		return new(fields)
	}
	return f
}

// preparedFields keeps the fields of some formats for the limiters and the limits that
// requests are decided by. It is safe for concurrent use.
type preparedFields struct {
	formats []headers.Format

	mu    sync.RWMutex
	known map[plannedLimits]*fields
}

// plannedLimits are the limits of a limiter, or those with other numbers.
type plannedLimits struct {
	limiter *core.Limiter
	numbers string // as varints; empty for the limiter's own
}

// maxPrepared is the most limits for which fields are kept. There are as many as
// different plans, of which few services have more.
const maxPrepared = 1000

// fields returns the fields for limits, or for those of l if limits is nil.
func (p *preparedFields) fields(l *core.Limiter, limits []core.Limit) (*fields, error) {
	var buf [64]byte
	numbers := buf[:0]
	for _, limit := range limits {
		numbers = binary.AppendVarint(numbers, limit.Requests)
	}
	p.mu.RLock()
	f := p.known[plannedLimits{l, string(numbers)}]
	p.mu.RUnlock()
	if f != nil {
		return f, nil
	}
	own := l.Limits()
	for i := range min(len(own), len(limits)) {
		own[i].Requests = limits[i].Requests
	}
	f, err := prepareFields(p.formats, own)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.known) >= maxPrepared {
		clear(p.known)
	}
	p.known[plannedLimits{l, string(numbers)}] = f
	return f, nil
}
