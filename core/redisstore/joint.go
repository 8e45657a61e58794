package redisstore

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/ask"
	"github.com/sashlimit/sash/core/redisstore/internal/lease"
)

// part is one of the requests that are decided together, as part of a request with the limits of all parts.
type part struct {
	*remembered
	ask      core.Ask
	decision core.Decision // set when the reply is read
}

var _ core.Joint = (*remembered)(nil)

// TakeJointly implements [core.Joint], where all keys are on one server: the script of all limits counts all or none,
// as it does for the limits of one rule. A refusal that is remembered for one of the requests answers without a script.
func (*remembered) TakeJointly(ctx context.Context, counts []core.Counts, asks []core.Ask) ([]core.Decision, error) {
	parts := partsOf(counts, asks)
	if parts == nil {
		return nil, nil
	}
	decisions := make([]core.Decision, len(parts))
	for i := range parts {
		p := &parts[i]
		if found, _ := p.lookup(&p.ask, &decisions[i]); found {
			return admitOthers(decisions, i), nil
		}
	}
	first := &parts[0]
	shortest := first.ask
	for i := range parts {
		if t := parts[i].ask.Timeout; t > 0 && (shortest.Timeout == 0 || t < shortest.Timeout) {
			shortest.Timeout = t
		}
	}
	q := request{Request: ask.Begin(shortest), counts: joint(parts)}
	q.Special = nil // the parts have the limits
	all, err := first.next.take(ctx, &q)
	switch {
	case err == nil:
	case redis.HasErrorPrefix(err, "CROSSSLOT"): // a proxy to a cluster; nothing has run
		first.counts.store.client.separate()
		return nil, nil
	default:
		return nil, err
	}
	for i := range parts {
		p := &parts[i]
		if decisions[i] = p.decision; all.Allowed || !p.decision.Allowed {
			p.refusalsFor(&p.ask).Note(p.ask.Key, p.ask.Cost, q.Began, p.decision)
		}
	}
	return decisions, nil
}

// admitOthers returns the decisions with all allowed but the one that is a remembered refusal.
func admitOthers(decisions []core.Decision, refused int) []core.Decision {
	for i := range decisions {
		decisions[i].Allowed = i != refused
	}
	return decisions
}

// partsOf returns the parts of a request, or nil if one script cannot decide them.
func partsOf(counts []core.Counts, asks []core.Ask) []part {
	parts, limits := make([]part, len(counts)), 0
	for i, c := range counts {
		r := behindLeases(c)
		if r == nil {
			return nil
		}
		parts[i] = part{remembered: r, ask: asks[i]}
		limits += len(r.counts.rule.Limits)
		client := &r.counts.store.client
		if r.counts.store != parts[0].counts.store || client.heeding == nil || client.separated() ||
			asks[i].Cost != asks[0].Cost || asks[i].Peek != asks[0].Peek || isCharge(&asks[i]) {
			return nil
		}
	}
	if limits > maxLimits || haveCommonKey(parts) {
		return nil
	}
	return parts
}

// haveCommonKey reports whether two parts count at the same key, which a script writes once.
func haveCommonKey(parts []part) bool {
	seen := map[any]bool{}
	for i := range parts {
		p := &parts[i]
		for _, key := range p.counts.keys(nil, p.ask.Key) {
			if seen[key] {
				return true
			}
			seen[key] = true
		}
	}
	return false
}

// behindLeases returns the chain of a rule without its leases, or nil if it is not of this package. What is decided
// together is not taken from leases.
func behindLeases(c core.Counts) *remembered {
	switch c := c.(type) {
	case *remembered:
		return c
	case *lease.Rule:
		if b, ok := c.Store().(*behind); ok {
			return b.remembered
		}
	}
	return nil
}

// joint returns the counts of a request with the limits of all parts.
func joint(parts []part) *counts {
	limits := make([][]core.Limit, len(parts))
	for i := range parts {
		limits[i] = parts[i].counts.limitsFor(&parts[i].ask)
	}
	first := parts[0].counts
	j := first.store.countsOf(core.Rule{Limits: slices.Concat(limits...), Notice: first.rule.Notice}, limits...)
	j.parts = parts
	return j
}

// readParts sets the decision of each part. seen are the facts of all limits.
func (c *counts) readParts(seen []facts, when moment) {
	for i := range c.parts {
		p := &c.parts[i]
		limits := p.counts.limitsFor(&p.ask)
		p.decision = decide(limits, seen, when, &p.ask)
		seen = seen[len(limits):]
	}
}
