package redisstore

import (
	"errors"
	"strconv"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// batches decides together, on a single server, what is decided by one script:
// one call for many requests costs the client, the network and the server
// little more than one for one.
type batches struct {
	queue
	client  *client
	breaker *breaker
	script  script
	apart   atomic.Bool // the server takes no keys of several slots
}

func newBatches(c *client, s script) *batches {
	b := &batches{client: c, breaker: c.breakers.get(""), script: s}
	b.run = b.together
	return b
}

// together decides a batch.
func (b *batches) together(batch []*call) {
	if b.apart.Load() && len(batch) > 1 {
		for i := range batch {
			b.together(batch[i : i+1])
		}
		return
	}
	first := batch[0].counts
	args := make([]any, 3, 3+len(batch)*(len(first.suffixes)+1+len(first.args)))
	for _, c := range batch {
		args = c.counts.keys(args, c.key)
	}
	args[0], args[1], args[2] = "evalsha", b.script.sha, strconv.Itoa(len(args)-3)
	for i, c := range batch {
		args = c.counts.arguments(args, c.cost, c.charge, i > 0 && c.counts == batch[i-1].counts)
	}
	ctx, cancel := patience(batch)
	defer cancel()
	done, err := b.breaker.Allow()
	if err != nil {
		b.answer(batch, "", errOpen)
		return
	}
	reply, err := b.client.evalNow(ctx, args[3].(string), args, b.script.source)
	done(err)
	if len(batch) > 1 && redis.HasErrorPrefix(err, "CROSSSLOT") {
		// A cluster, or a proxy to one, behind a client for a single server:
		// nothing has run, and from now on this goes a request at a time.
		b.apart.Store(true)
		b.together(batch)
		return
	}
	b.answer(batch, reply, err)
}

// answer gives each caller its part of the reply.
func (b *batches) answer(batch []*call, reply string, err error) {
	var now int64
	if err == nil {
		now, reply, err = readTime(reply)
	}
	for _, c := range batch {
		o := outcome{err: err}
		if err == nil {
			o.decision, reply, o.err = c.counts.read(reply, now, c.cost, c.charge)
			if errors.Is(o.err, errReply) {
				err = o.err // where the next part begins is not known
			}
		}
		c.done <- o
	}
}
