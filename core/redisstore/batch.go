package redisstore

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
)

// batches decides together, on a single server, what is decided by one script:
// one call for many requests costs the client, the network and the server
// little more than one for one.
type batches struct {
	queue
	client  *client
	breaker *breaker
	script  script
}

func newBatches(c *client, s script) *batches {
	b := &batches{client: c, breaker: c.breakers.get(""), script: s}
	b.init(b.together)
	return b
}

// together decides a batch; see queue.run.
func (b *batches) together(batch []*call) bool {
	done, err := b.breaker.Allow()
	if err != nil {
		b.answer(batch, "", errOpen)
		return true
	}
	key, args := b.command(batch)
	ctx := newPatience(batch, func() { done(errLate) })
	reply, err := b.client.evalNow(ctx, b.client.process, key, args, b.script.source)
	if !ctx.stop() {
		return false
	}
	err = ctx.judge(err)
	done(err)
	if err != nil && len(batch) > 1 && notTogether(err) {
		if redis.HasErrorPrefix(err, "CROSSSLOT") {
			b.client.separate()
		}
		for _, c := range batch {
			go c.alone()
		}
		return true
	}
	b.answer(batch, reply, err)
	return true
}

// notTogether says whether nothing has run because of the company: keys of several
// slots, where there is a cluster or a proxy to one behind a client for a single
// server, or one key among them that is forbidden.
func notTogether(err error) bool {
	// Of a command within the script it may come when others have been counted.
	forbidden := redis.HasErrorPrefix(err, "NOPERM") && !strings.Contains(err.Error(), "script")
	return forbidden || redis.HasErrorPrefix(err, "CROSSSLOT")
}

// command is the script's call for a batch, and one of its keys. Nothing of it
// is used again: if patience ends, it may be read for a while.
func (b *batches) command(batch []*call) (key string, args []any) {
	first := batch[0].counts
	args = make([]any, 3, 3+len(batch)*(len(first.suffixes)+len(first.args)+2))
	var few [64 * maxBatch]byte
	var ends [maxBatch]int
	text, end := few[:0], ends[:0]
	for _, c := range batch {
		text, end = c.counts.appendKeys(text, end, c.key)
	}
	args = cut(args, string(text), end)
	args[0], args[1], args[2] = "evalsha", b.script.arg, first.numkeys
	if len(batch) > 1 {
		args[2] = strconv.Itoa(len(args) - 3)
	}
	alike := !slices.ContainsFunc(batch, func(c *call) bool { return c.counts != first || c.cost != 1 || !c.charge })
	args = append(args, first.args...)
	if alike { // mostly
		return args[3].(string), args
	}
	counts := first
	for _, c := range batch {
		if c.counts != counts {
			counts = c.counts
			args = append(append(args, "+"), counts.args...)
		}
		args = append(args, costArg(c.cost, c.charge))
	}
	return args[3].(string), args
}

// answer gives each caller its part of the reply.
func (b *batches) answer(batch []*call, reply string, err error) {
	var now int64
	if err == nil {
		now, reply, err = readTime(reply)
	}
	for _, c := range batch {
		if err != nil {
			c.answer(core.Decision{}, err)
			continue
		}
		var d core.Decision
		var own error
		d, reply, own = c.counts.read(reply, now, c.cost, c.charge)
		if errors.Is(own, errReply) {
			err = own // where the next part begins is not known
		}
		c.answer(d, own)
	}
}
