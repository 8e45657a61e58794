package redisstore

import (
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/gather"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
)

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

// begin begins the call for a batch. It returns nil if the breaker is open: then the calls
// are answered.
func (t *together) begin(batch []*call) *attempt {
	judgeAt, deadline := t.Deadlines(batch)
	a, err := t.client.attempt(batch[0].Context, t.breaker, judgeAt, deadline)
	if err != nil {
		for _, c := range batch {
			c.Answer(core.Decision{}, err)
		}
		return nil
	}
	a.queue, a.first, a.inline = t.queue, batch[0], batch[0].Inline()
	e, size := &t.client.events, uint64(len(batch))
	e.batches.Add(1)
	e.batched.Add(size)
	for most := e.largest.Load(); size > most && !e.largest.CompareAndSwap(most, size); {
		most = e.largest.Load()
	}
	return a
}

// targetOf returns what a connection for a batch is wanted for.
func targetOf(batch []*call) target { return target{batch[0].Request.ledger, batch[0].Request.Key} }

// resend has a call decided by itself that was to be decided together with others, and
// was not.
func resend(c *call) { c.Answer(c.Request.alone(c.Context)) }

// newQueue returns a queue with batches that serve answers. Callers with little company serve their own calls, if at
// most inlineMost of their time is left: serve must return at a batch's deadline then. If it is 0, none do. No
// more batches are under way than slots; 0 is no bound.
func newQueue(serve func([]*call) bool, inlineMost time.Duration, slots int) *queue {
	return gather.New(gather.Config[request, core.Decision]{
		Serve:       serve,
		ErrLate:     errLate,
		ErrQueued:   errQueued,
		ErrLeft:     ended,
		MinPatience: core.DefaultTimeout,
		InlineMin:   inlineMin,
		InlineMax:   inlineMost,
		MaxSlots:    slots,
	})
}

// maxScripts is how many scripts a store keeps. Rules may be bound while serving, and of
// 16 limits alone there are 2^16 scripts.
const maxScripts = 128

// kept is a script, and where the requests wait that it decides.
type kept struct {
	script.Script
	batches *batches // nil where each must be sent by itself
}

// script returns the script for the limits of a rule. Rules may be bound while serving, and
// to render a script takes most of a millisecond. A script that is kept no more is
// rendered anew for a rule that is bound later, while earlier rules go on using theirs: then
// the requests of both do not wait together, and are decided all the same.
func (s *Store) script(lease bool, limits []core.Limit) kept {
	shape := script.Shape(lease, limits)
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.scripts[shape]; ok {
		return known
	}
	if len(s.scripts) >= maxScripts {
		for other := range s.scripts {
			delete(s.scripts, other)
			break
		}
	}
	added := kept{Script: script.Decide(lease, limits)}
	if s.client.heeding != nil { // a script cannot have keys of two servers
		added.batches = newBatches(&s.client, added.Source)
	}
	s.scripts[shape] = added
	return added
}

// batches decides together, on a single server, what is decided by one script:
// one call for many requests costs the client, the network and the server
// little more than one for one.
type batches struct {
	together
	source string
	apart  *pipeline // sends batches that must not be one script, see joint
}

func newBatches(c *client, source string) *batches {
	b := &batches{together: together{client: c, breaker: c.first.breaker}, source: source}
	b.queue = newQueue(b.serve, c.inlineMost, b.breaker.connections.limit)
	b.apart = &pipeline{together: b.together}
	return b
}

// serve decides a batch; see [gather.Config].
func (b *batches) serve(batch []*call) (inTime bool) {
	if !b.client.joint.may(batch) {
		store, heard := batch[0].Request.ledger.store, &batch[0].Request.ledger.rule.Binding
		for _, c := range batch {
			if rule := &c.Request.ledger.rule.Binding; rule.Notice != nil {
				heard = rule
			}
		}
		inTime = b.apart.serve(batch)
		store.findOut(heard)
		return inTime
	}
	a := b.begin(batch)
	if a == nil {
		return true
	}
	reply, err := b.client.inTurn(a, func() (string, error) {
		if err := b.breaker.connections.take(a, targetOf(batch)); err != nil {
			return "", err
		}
		return b.client.evalNow(a, b.command(batch), b.source)
	})
	err = a.lateOr(err)
	if !a.end(err) {
		return false
	}
	if err != nil && len(batch) > 1 && notTogether(err) {
		if severalSlots(err) {
			// Behind that server is a cluster by now, where a script may have keys of one slot only.
			b.client.joint.mode.CompareAndSwap(joined, unproved)
		}
		for _, c := range batch {
			go resend(c)
		}
		return true
	}
	if err == nil && (!b.breaker.looked.Load() || b.client.joint.unsaid.Load() != nil) {
		for _, c := range batch { // before they are answered, and used again
			b.client.noteAnswer(b.breaker, nil, &c.Request.ledger.rule.Binding)
		}
	}
	b.answer(batch, reply, err)
	return true
}

// command returns the script's call for a batch.
func (b *batches) command(batch []*call) []any {
	var few [gather.MaxBatch]script.Request
	all := few[:0]
	for _, c := range batch {
		all = append(all, script.Request{Rule: &c.Request.ledger.rule, Ask: &c.Request.Ask})
	}
	return script.Together(all)
}

// answer gives each caller its part of the reply.
func (b *batches) answer(batch []*call, reply string, err error) {
	var now int64
	if err == nil {
		now, reply, err = script.ReadTime(reply)
	}
	for _, c := range batch {
		d, own := core.Decision{}, err
		if err == nil {
			d, reply, own = c.Request.readPart(reply, now)
			if errors.Is(own, script.ErrReply) {
				err = own // where the next part begins is not known
			}
		}
		c.Answer(d, own)
	}
}

// pipeline sends together what is decided by one master of a cluster or one
// shard of a ring: a script for each request, in one write and one read. On a
// cluster a script may have keys of one slot only. On a single server it sends
// the batches that must not be one script.
type pipeline struct {
	together
	node *redis.Client // nil if the client is for a single server
}

func newPipeline(c *client, node *redis.Client, breaker *breaker) *pipeline {
	p := &pipeline{together{client: c, breaker: breaker}, node}
	p.queue = newQueue(p.serve, 0, breaker.connections.limit) // a node's client does not heed deadlines
	return p
}

// serve decides a batch; see [gather.Config]. Where a script has not run,
// because the slot has moved or the server does not know the script, the request
// goes on alone, as go-redis's client for all servers follows the slot.
func (p *pipeline) serve(batch []*call) (inTime bool) {
	a := p.begin(batch)
	if a == nil {
		return true
	}
	cmds := p.exec(a, batch)
	var failure error // the first that speaks against the server
	for _, cmd := range slices.Backward(cmds) {
		if err := cmd.Err(); isFailure(err) && !notRun(err) {
			failure = a.lateOr(err)
		}
	}
	if !a.end(failure) {
		return false
	}
	for i, c := range batch {
		switch err := cmds[i].Err(); {
		case err == nil:
			r := &c.Request
			p.client.noteAnswer(p.breaker, p.node, &r.ledger.rule.Binding)
			c.Answer(r.read(cmds[i].(*once).Val()))
		case notRun(err):
			go resend(c)
		default:
			c.Answer(core.Decision{}, a.lateOr(err))
		}
	}
	return true
}

// exec sends a script for each call and waits for the replies.
func (p *pipeline) exec(ctx *attempt, batch []*call) []redis.Cmder {
	cmds := make([]redis.Cmder, len(batch))
	for i, c := range batch {
		args := c.Request.args
		if args == nil {
			args = c.Request.ledger.rule.Call(&c.Request.Ask)
		}
		cmds[i] = newOnce(ctx, args)
	}
	p.client.events.scripts.Add(uint64(len(batch)))
	var server redis.UniversalClient = p.node
	if p.node == nil {
		server = p.client.within(ctx)
	}
	pipe := server.Pipeline()
	_ = pipe.BatchProcess(ctx, cmds...) // queues them
	sent := false
	_, err := p.client.inTurn(ctx, func() (string, error) {
		err := p.breaker.connections.take(ctx, targetOf(batch))
		if sent = err == nil; sent {
			_, err = pipe.Exec(ctx)
		}
		return "", err
	})
	if err == nil {
		return cmds
	}
	for _, cmd := range cmds {
		if !sent || errors.Is(err, errUnreadable) {
			cmd.SetErr(err)
		}
		if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
			p.client.events.noScripts.Add(1)
		}
	}
	return cmds
}
