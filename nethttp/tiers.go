package nethttp

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/internal/errs"
)

// WithTiers sets the limits for each request by its tier, such as the plan that the client
// pays for: tier returns the name of the tier, and limits holds the limits of each.
//
//	nethttp.WithTiers(planOf, map[string][]core.Limit{
//		"free": {core.PerMinute(60)},
//		"pro":  {core.PerMinute(600), core.PerDay(100_000)},
//	})
//
// A limit that has the window and the algorithm of one of the limiter's is the same count,
// whatever the tier, so that a client that changes its tier keeps what it has used. An
// unnamed limit gets the name of the limiter's; named limits must have the same name for
// that. Any other limit is a count of its own, which all tiers share that have it: as if
// made by [core.Limiter.WithLimits]. All header fields tell the client the limits of its
// tier. [core.Limiter.SetLimits] does not change tiers.
//
// tier is called for each request that is not skipped and has a key, by many goroutines at
// once, and must not read the body. If it returns an error, or a name that limits does not
// have, the request is answered with 500, and the observer hears of an error that matches
// core.ErrLimits. [WithDefaultTier] has unknown names served as another tier.
func WithTiers(tier func(*http.Request) (name string, err error), limits map[string][]core.Limit) Option {
	limits = maps.Clone(limits)
	return func(c *config) error {
		switch {
		case tier == nil:
			return errors.New("sash: WithTiers(nil, ...): give a func(*http.Request) (string, error) " +
				"that returns the name of a tier")
		case len(limits) == 0:
			return errors.New("sash: WithTiers without tiers: give a map such as " +
				"map[string][]core.Limit{\"free\": {core.PerMinute(60)}}")
		}
		return c.setPlanner(&tiers{tier: tier, limits: limits})
	}
}

// WithDefaultTier serves a request of a tier that [WithTiers] does not have, or without a
// tier, by the limits of the named tier. An error of the tier function is answered with 500 all
// the same: the function knows best whether to return a name instead.
func WithDefaultTier(name string) Option {
	return func(c *config) error {
		if c.defaultTier != nil {
			return fmt.Errorf("sash: WithDefaultTier(%q): there is a default tier already: give one", name)
		}
		c.defaultTier = &name
		return nil
	}
}

// tiers is the planner of WithTiers.
type tiers struct {
	tier   func(*http.Request) (string, error)
	limits map[string][]core.Limit

	plans  map[string]plan
	others *plan // for unknown names; nil if they are errors
}

// prepare implements planner.
func (t *tiers) prepare(limiter *core.Limiter, c *config) error {
	t.plans = make(map[string]plan, len(t.limits))
	for _, name := range slices.Sorted(maps.Keys(t.limits)) {
		p, err := newTier(limiter, t.limits[name], c.formats)
		if err != nil {
			return fmt.Errorf("sash: tier %q: %s", name, errs.Text(err))
		}
		t.plans[name] = p
	}
	if c.defaultTier == nil {
		return nil
	}
	others, known := t.plans[*c.defaultTier]
	if !known {
		return fmt.Errorf("sash: WithDefaultTier(%q): there is no such tier among those of WithTiers: %q",
			*c.defaultTier, slices.Sorted(maps.Keys(t.limits)))
	}
	t.others = &others
	return nil
}

// newTier returns the plan of a tier with limits. Where they agree with the limiter's in
// all but Requests it is decided by the limiter itself.
func newTier(limiter *core.Limiter, limits []core.Limit, formats []headers.Format) (plan, error) {
	limits, same := align(limits, limiter.Limits())
	p := plan{limiter: limiter, limits: limits}
	if same {
		if err := limiter.CheckLimits(limits...); err != nil {
			return plan{}, err
		}
	} else {
		own, err := limiter.WithLimits(limits...)
		if err != nil {
			return plan{}, err
		}
		p.limiter, p.limits = own, nil
		limits = own.Limits()
	}
	f, err := prepareFields(formats, limits)
	p.fields = f
	return p, err
}

// align returns limits of which each unnamed one has the name of the limit of own with its
// window and algorithm. If the limits are own with other Requests, it returns them in
// the order of own, and same is true.
func align(limits, own []core.Limit) (aligned []core.Limit, same bool) {
	limits = slices.Clone(limits)
	inOrder := make([]core.Limit, 0, len(own))
	for _, o := range own {
		at := indexLike(limits, o, o.Name)
		if at < 0 {
			at = indexLike(limits, o, "")
		}
		if at >= 0 {
			limits[at].Name = o.Name
			inOrder = append(inOrder, limits[at])
		}
	}
	if len(inOrder) == len(own) && len(limits) == len(own) {
		return inOrder, true
	}
	return limits, false
}

// indexLike returns the index of the first limit with a name, and the window and the
// algorithm of other, or -1.
func indexLike(limits []core.Limit, other core.Limit, name string) int {
	return slices.IndexFunc(limits, func(l core.Limit) bool {
		return l.Name == name && l.Window == other.Window && l.Algorithm == other.Algorithm
	})
}

// plan implements planner.
func (t *tiers) plan(r *http.Request) (plan, error) {
	name, err := t.tier(r)
	if err != nil {
		return plan{}, limitsError("WithTiers", err)
	}
	p, known := t.plans[name]
	switch {
	case known:
		return p, nil
	case t.others != nil:
		return *t.others, nil
	}
	return plan{}, fmt.Errorf("%w: WithTiers has no tier %.64q; WithDefaultTier would choose one", core.ErrLimits, name)
}
