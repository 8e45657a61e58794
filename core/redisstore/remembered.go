package redisstore

import (
	"context"
	"errors"
	"net"

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
	if found, _ := r.refusals.Lookup(a.Key, a.Cost, &d); found {
		return d, nil
	}
	return r.take(ctx, ask.Begin(a))
}

// take has the next link answer, whatever is remembered, and learns from the answer. A refusal is reckoned from
// q.Began.
func (r *remembered) take(ctx context.Context, q ask.Request) (core.Decision, error) {
	d, err := r.next.take(ctx, request{Request: q, counts: r.counts})
	switch {
	case err == nil:
		r.refusals.Note(q.Key, q.Cost, q.Began, d)
	case isCallers(err):
		r.refusals.Unanswered(q.Key, q.Cost)
	case unsent(err) && r.refusals.Stands(q.Key, q.Cost, &d):
		err = nil
	}
	return d, err
}

// unsent reports whether a request that failed with err was certainly not sent: then it is not counted, and a
// remembered refusal may answer it. Any other request may have been counted, and the policy has to answer.
func unsent(err error) bool {
	var op *net.OpError
	return err == errOpen || errors.As(err, &op) && op.Op == "dial"
}

// Reset implements [core.Counts]. This process sees the reset at once, others within a second. A reset that fails may
// have deleted the counts, so that the remembered refusals of the client are forgotten then too; but if ctx has ended
// already, nothing is done.
func (r *remembered) Reset(ctx context.Context, key string) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	store := r.counts.store
	args := r.counts.keys([]any{"del"}, key)
	err := store.client.del(ctx, args[1].(string), args)
	store.refusals.Forget(key)
	return err
}
