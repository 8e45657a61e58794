package redisstore

import (
	"context"

	"github.com/sashlimit/sash/core"
)

// sent is the last link: it sends a request by itself.
type sent struct{ client *client }

func (s sent) take(ctx context.Context, q *request) (core.Decision, error) {
	if q.args == nil {
		q.args = q.counts.command(&q.Ask)
	}
	ctx, cancel := q.Context(ctx)
	defer cancel()
	reply, err := s.client.eval(ctx, q.Deadline, q.args, q.counts.script.source)
	if err != nil {
		return core.Decision{}, err
	}
	s.client.noteAnswer(s.client.first.breaker, nil, &q.counts.rule)
	return q.counts.readAlone(reply, &q.Ask)
}
