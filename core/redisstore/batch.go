package redisstore

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/gather"
)

// batches decides together, on a single server, what is decided by one script:
// one call for many requests costs the client, the network and the server
// little more than one for one.
type batches struct {
	together
	script script
}

func newBatches(c *client, s script) *batches {
	b := &batches{together{client: c, breaker: c.first.breaker}, s}
	b.queue = newQueue(b.serve, c.exact)
	return b
}

// serve decides a batch; see [gather.Config].
func (b *batches) serve(batch []*call) (inTime bool) {
	ctx := b.begin(batch)
	if ctx == nil {
		return true
	}
	reply, err := b.client.evalNow(ctx, b.command(batch), b.script.source)
	err = lateOr(ctx, err)
	if !ctx.Stop(err) {
		return false
	}
	if err != nil && len(batch) > 1 && notTogether(err) {
		if redis.HasErrorPrefix(err, "CROSSSLOT") {
			b.client.separate()
		}
		for _, c := range batch {
			go b.resend(c)
		}
		return true
	}
	if err == nil && !b.breaker.looked.Load() {
		for _, c := range batch { // before they are answered, and used again
			b.client.noteAnswer(b.breaker, nil, &c.Request.counts.rule)
		}
	}
	b.answer(batch, reply, err)
	return true
}

// notTogether reports whether nothing has run because the requests came together:
// their keys are of several slots, where a cluster or a proxy to one is behind a
// client for a single server, or one of the keys is forbidden.
func notTogether(err error) bool {
	// Of a command within the script it may come when others have been counted.
	forbidden := redis.HasErrorPrefix(err, "NOPERM") && !strings.Contains(err.Error(), "script")
	return forbidden || redis.HasErrorPrefix(err, "CROSSSLOT")
}

// command returns the script's call for a batch. Its memory is not used again: a
// call that goes on after its deadline may still read it.
func (b *batches) command(batch []*call) []any {
	first := batch[0].Request.counts
	args := make([]any, 3, 3+len(batch)*(len(first.rule.Limits)+len(first.args)+2))
	var few [64 * gather.MaxBatch]byte
	var ends [gather.MaxBatch]int
	text, end := few[:0], ends[:0]
	for _, c := range batch {
		text, end = c.Request.counts.appendKeys(text, end, c.Request.Key)
	}
	args = cut(args, string(text), end)
	args[0], args[1], args[2] = "evalsha", b.script.sha, first.numkeys
	if len(batch) > 1 {
		args[2] = strconv.Itoa(len(args) - 3)
	}
	alike := !slices.ContainsFunc(batch, func(c *call) bool {
		return c.Request.counts != first || !isPlain(&c.Request.Ask) || c.Request.Special != nil
	})
	args = append(args, first.argsFor(&batch[0].Request.Ask)...)
	if alike { // mostly
		return args
	}
	before := &batch[0].Request
	for i, c := range batch {
		r := &c.Request
		if i > 0 && (r.counts != before.counts || hasLimits(&r.Ask) || hasLimits(&before.Ask)) {
			args = append(append(args, "+"), r.counts.argsFor(&r.Ask)...)
		}
		args, before = appendCost(args, &r.Ask), r
	}
	return args
}

// answer gives each caller its part of the reply.
func (b *batches) answer(batch []*call, reply string, err error) {
	var now int64
	if err == nil {
		now, reply, err = readTime(reply)
	}
	for _, c := range batch {
		d, own := core.Decision{}, err
		if err == nil {
			d, reply, own = c.Request.counts.read(reply, now, &c.Request.Ask)
			if errors.Is(own, errReply) {
				err = own // where the next part begins is not known
			}
		}
		c.Answer(d, own)
	}
}
