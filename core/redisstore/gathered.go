package redisstore

import (
	"context"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/ask"
	"github.com/sashlimit/sash/core/redisstore/internal/gather"
)

// gathered is the link that sends a request together with others that wait for the same server: in one script, see
// batches, or in one pipeline. What cannot be gathered goes to the next link, and so does every request
// while the server's breaker is not closed.
type gathered struct{ sent }

// request is what the links get that answer from Redis.
type request struct {
	ask.Request
	counts *counts // by which the request is decided
	args   []any   // the script's call for this request alone; nil for batches, which build one for all
}

func (g gathered) take(ctx context.Context, q *request) (core.Decision, error) {
	if b := q.counts.script.batches; b != nil && !g.client.separated() && b.breaker.closed() {
		return b.Do(ctx, q.Deadline, q)
	}
	q.args = q.counts.command(&q.Ask)
	if p := g.client.server(ctx, firstKey(q.args)).pipeline.Load(); p != nil && p.breaker.closed() {
		return p.Do(ctx, q.Deadline, q)
	}
	return g.sent.take(ctx, q)
}

// Requests that wait together are decided together.
type (
	queue = gather.Queue[request, core.Decision]
	call  = gather.Call[request, core.Decision]
)

const (
	// A caller that serves its own call judges the server at its deadline. A server
	// is given DefaultTimeout; a millisecond less is what passes, at the default
	// Config.Timeout, between the start of a decision and the call.
	inlineMin = core.DefaultTimeout - time.Millisecond

	// A caller that serves its own call and is cancelled stays until its deadline:
	// see New.
	inlineMax = time.Second
)

// together is what batches and pipelines have in common: requests that wait for the
// same server.
type together struct {
	*queue
	client  *client
	breaker *breaker
}

// begin returns the context of a batch that is sent now. It returns nil if the breaker
// is open: then the calls are answered.
func (t *together) begin(batch []*call) *gather.Patience {
	tell, err := t.breaker.Allow()
	if err != nil {
		for _, c := range batch {
			c.Answer(core.Decision{}, t.breaker.errOpen())
		}
		return nil
	}
	t.client.events.batch(len(batch))
	return t.Patience(batch, t.client.judge(t.breaker, tell))
}

// resend has a call decided by itself that was to be decided together with others, and
// was not.
func (t *together) resend(c *call) { c.Answer(sent{t.client}.take(c.Context, &c.Request)) }

// newQueue returns a queue with batches that serve answers. exact says that serve
// returns at a batch's deadline: then callers with little company serve their own
// calls.
func newQueue(serve func([]*call) bool, exact bool) *queue {
	config := gather.Config[request, core.Decision]{
		Serve:       serve,
		ErrLate:     errLate,
		ErrQueued:   errQueued,
		ErrLeft:     ended,
		MinPatience: core.DefaultTimeout,
	}
	if exact {
		config.InlineMin, config.InlineMax = inlineMin, inlineMax
	}
	return gather.New(config)
}
