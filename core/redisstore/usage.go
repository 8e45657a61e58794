package redisstore

import (
	"context"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// Usage implements [core.Counts]. Whatever is remembered or leased, it asks Redis, by the rule's script with a cost of
// 0, which writes nothing. That is one call, and another one if the server does not know the script.
func (r *remembered) Usage(ctx context.Context, key string) ([]core.Use, error) {
	c := r.counts
	reply, err := c.store.client.eval(ctx, time.Time{}, c.command(&core.Ask{Key: key}), c.script.source)
	if err != nil {
		return nil, err
	}
	return c.readUsage(reply)
}

// readUsage reads the script's reply to a request of cost 0.
func (c *counts) readUsage(reply string) ([]core.Use, error) {
	var seen [maxLimits]facts
	var stamp int64
	var admitted bool
	now, rest, err := readTime(reply)
	if err == nil {
		admitted, stamp, rest, err = c.readFacts(rest, now, &seen)
	}
	switch {
	case err != nil:
	case rest != "":
		err = errReply
	case !admitted:
		err = errDisagree
	}
	if err != nil {
		return nil, quoting(err, reply)
	}
	uses := make([]core.Use, len(c.rule.Limits))
	for i, l := range c.rule.Limits {
		l.Requests = window.Boundless
		v := seen[i].decide(l, now, stamp, 0)
		uses[i] = core.Use{
			Used: v.Units(), ResetAfter: window.Duration(v.ResetAfter), At: time.UnixMicro(now),
		}
	}
	return uses, nil
}
