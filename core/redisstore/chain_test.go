package redisstore

import (
	"context"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/ask"
)

// asking returns a request as the links behind the memory get it, with no deadline.
func asking(c *counts, key string, cost int64, charge bool) request {
	return request{Request: ask.Request{Ask: core.Ask{Key: key, Cost: cost, Peek: !charge}}, counts: c}
}

// until returns q with a deadline.
func (q request) until(deadline time.Time) *request {
	q.Deadline = deadline
	return &q
}

// gatheredBy returns the link that sends the rule's requests together with others.
func gatheredBy(c *counts) gathered { return gathered{sent{&c.store.client}} }

// askAlone has the script decide one request.
func (c *counts) askAlone(
	ctx context.Context, deadline time.Time, key string, cost int64, charge bool,
) (core.Decision, error) {
	return sent{&c.store.client}.take(ctx, asking(c, key, cost, charge).until(deadline))
}

// Take decides a request by the links behind the memory.
func (c *counts) Take(ctx context.Context, a core.Ask) (core.Decision, error) {
	return gatheredBy(c).take(ctx, &request{Request: ask.Begin(a), counts: c})
}
