package redisstore

import (
	"context"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/ask"
	"github.com/sashlimit/sash/core/redisstore/internal/refused"
)

// remembered is the link that refuses from memory, and remembers what the next link refuses.
type remembered struct {
	counts   *counts
	refusals refused.Rule
	next     gathered
}

var _ core.Counts = (*remembered)(nil)

// Take implements [core.Counts].
func (r *remembered) Take(ctx context.Context, a core.Ask) (d core.Decision, err error) {
	if found, _ := r.lookup(&a, &d); found {
		return d, nil
	}
	return r.take(ctx, &request{Request: ask.Begin(a), counts: r.counts})
}

// lookup is [refused.Rule.Lookup] for a request. A charge is never refused.
func (r *remembered) lookup(a *core.Ask, d *core.Decision) (found, mustAsk bool) {
	if isCharge(a) {
		return false, false
	}
	return r.refusalsFor(a).Lookup(a.Key, a.Cost, d)
}

// refusalsFor returns the refusals by the limits that a request is decided by.
func (r *remembered) refusalsFor(a *core.Ask) refused.Rule {
	if hasLimits(a) {
		return r.refusals.With(a.Special.Limits)
	}
	return r.refusals
}

// take has the next link answer, whatever is remembered, and learns from the answer. A refusal is reckoned from
// q.Began.
func (r *remembered) take(ctx context.Context, q *request) (d core.Decision, err error) {
	d, err = r.next.take(ctx, q)
	if q.Special != nil && !q.Peek && q.Cost > 0 && (err != nil || d.Allowed) {
		// It may have been counted although the rule's limits refuse.
		r.counts.store.refusals.Changed(q.Key)
	}
	if isCharge(&q.Ask) {
		return d, err
	}
	refusals := r.refusalsFor(&q.Ask)
	switch {
	case err == nil:
		refusals.Note(q.Key, q.Cost, q.Began, d)
	case isCallers(err):
		refusals.Unanswered(q.Key, q.Cost)
	case unsent(err) && refusals.Stands(q.Key, q.Cost, &d):
		err = nil
	}
	return d, err
}

// unsent reports whether a request that failed with err was certainly not sent: then it is not counted, and a
// remembered refusal may answer it. Any other request may have been counted, and the policy has to answer.
func unsent(err error) bool {
	stage := core.StageOf(err)
	return stage == core.StageNotAsked || stage == core.StageConnect
}

// Reset implements [core.Counts]. This process sees the reset at once, others within a second. A reset that fails may
// have deleted the counts, so that the remembered refusals of the client are forgotten then too; but if ctx has ended
// already, nothing is done.
func (r *remembered) Reset(ctx context.Context, key string) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	store := r.counts.store
	err := store.client.del(ctx, r.counts.keys([]any{"del"}, key))
	store.refusals.Changed(key)
	return err
}
