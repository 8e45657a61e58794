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

// plan is what the requests of some clients are decided by.
type plan struct {
	limiter *core.Limiter
	limits  []core.Limit // for Request.Limits; nil for those of the limiter
	fields  *fields      // nil for those of the limiter at the time
}

// planner finds the plan of a request.
type planner interface {
	// prepare is called once, at construction, after all options.
	prepare(limiter *core.Limiter, c *config) error

	// plan is safe for concurrent use. Its error is one of core.ErrLimits.
	plan(r *http.Request) (plan, error)
}

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
// or core.ErrInvalid. To have numbers checked when they are loaded, use
// [core.Limiter.CheckLimits].
//
// WithLimits cannot be given together with [WithTiers].
func WithLimits(limits func(*http.Request) ([]core.Limit, error)) Option {
	return func(c *config) error {
		if limits == nil {
			return errors.New("sash: WithLimits(nil): give a func(*http.Request) ([]core.Limit, error), " +
				"or leave the option out for the limits of the limiter")
		}
		return c.setPlanner(&limitsByRequest{limits: limits})
	}
}

// setPlanner sets the planner. It is an error if there is one.
func (c *config) setPlanner(p planner) error {
	if c.planner != nil {
		return errors.New("sash: WithTiers and WithLimits are given twice or together: give one of them, once")
	}
	c.planner = p
	return nil
}

var errDefaultTier = errors.New("sash: WithDefaultTier without WithTiers: leave it out, or give the tiers")

// limitsError returns the error of a decision on a request whose plan was not found
// because the function of an option failed with err.
func limitsError(option string, err error) error {
	return fmt.Errorf("%w: the function of %s failed: %w", core.ErrLimits, option, err)
}

// limitsByRequest is the planner of WithLimits.
type limitsByRequest struct {
	limits  func(*http.Request) ([]core.Limit, error)
	limiter *core.Limiter
	formats []headers.Format
	count   int  // of the limits
	byText  bool // whether a format other than Classic needs the limits beforehand

	mu       sync.RWMutex
	prepared map[string]*fields // by the numbers of the limits
	classic  *fields            // for any limits, if no other format needs them
}

// maxPrepared is the most limits for which fields are kept. There are as many as
// different plans, of which few services have more.
const maxPrepared = 1000

// prepare implements planner.
func (p *limitsByRequest) prepare(limiter *core.Limiter, c *config) (err error) {
	if c.defaultTier != nil {
		return errDefaultTier
	}
	p.limiter, p.formats, p.prepared = limiter, c.formats, map[string]*fields{}
	p.classic, err = prepareFields(c.formats, limiter.Limits())
	p.count = len(limiter.Limits())
	p.byText = err == nil && len(p.classic.writers) > 0
	return err
}

// plan implements planner.
func (p *limitsByRequest) plan(r *http.Request) (plan, error) {
	limits, err := p.limits(r)
	if err != nil {
		return plan{}, limitsError("WithLimits", err)
	}
	if limits == nil {
		return plan{limiter: p.limiter}, nil
	}
	return plan{p.limiter, limits, p.fieldsFor(limits)}, nil
}

// fieldsFor returns the fields for limits, which have not been checked: a decision by
// limits that are wrong has none.
func (p *limitsByRequest) fieldsFor(limits []core.Limit) *fields {
	if !p.byText || len(limits) != p.count {
		return p.classic
	}
	var buf [64]byte
	key := buf[:0]
	for _, l := range limits {
		key = binary.AppendVarint(key, l.Requests)
	}
	p.mu.RLock()
	f := p.prepared[string(key)]
	p.mu.RUnlock()
	if f != nil {
		return f
	}
	own := p.limiter.Limits()
	for i := range own {
		own[i].Requests = limits[i].Requests
	}
	f, err := prepareFields(p.formats, own)
	if err != nil { // a format of the user's own
		return p.classic
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.prepared) >= maxPrepared {
		clear(p.prepared)
	}
	p.prepared[string(key)] = f
	return f
}
