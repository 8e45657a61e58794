package redisstore

import (
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/gather"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
	"github.com/sashlimit/sash/core/redisstore/internal/server"
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
	store  *Store
	server *server.Server
}

// begin begins the call for a batch. It returns nil if the breaker is open: then the calls
// are answered.
func (t *together) begin(batch []*call) *server.Attempt {
	judgeAt, deadline := t.Deadlines(batch)
	a, err := t.store.client.Begin(batch[0].Context, t.server, judgeAt, deadline)
	if err != nil {
		for _, c := range batch {
			c.Answer(core.Decision{}, err)
		}
		return nil
	}
	a.Batch, a.Inline = batch[0], batch[0].Inline()
	t.store.batched.add(uint64(len(batch)))
	return a
}

// resend has a call decided by itself that was to be decided together with others, and
// was not.
func resend(c *call) { c.Answer(c.Request.alone(c.Context)) }

// newQueue returns a queue with batches that serve answers. Callers with little company serve their own calls, if at
// most inlineMost of their time is left: serve must return at a batch's deadline then. If it is 0, none do. No
// more batches are under way than slots; 0 is no bound.
func newQueue(serve func([]*call) bool, inlineMost time.Duration, slots int) *queue {
	return gather.New(gather.Config[request, core.Decision]{
		Serve:       serve,
		ErrLate:     server.ErrLate,
		ErrQueued:   server.ErrQueued,
		ErrLeft:     server.Ended,
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
	if s.client.Heeding != nil { // a script cannot have keys of two servers
		added.batches = newBatches(s)
	}
	s.scripts[shape] = added
	return added
}

// batches decides together, on a single server, what is decided by one script:
// one call for many requests costs the client, the network and the server
// little more than one for one.
type batches struct {
	together
	apart *pipeline // sends batches that must not be one script, see joint
}

func newBatches(s *Store) *batches {
	b := &batches{together: together{store: s, server: s.client.First}}
	inlineMost := time.Duration(0)
	if s.client.Prompt {
		inlineMost = inlineMax
	}
	b.queue = newQueue(b.serve, inlineMost, b.server.Limit())
	b.apart = &pipeline{together: b.together}
	return b
}

// serve decides a batch; see [gather.Config].
func (b *batches) serve(batch []*call) (inTime bool) {
	if !b.store.joint.may(batch) {
		heard := &batch[0].Request.ledger.rule.Binding
		for _, c := range batch {
			if rule := &c.Request.ledger.rule.Binding; rule.Notice != nil {
				heard = rule
			}
		}
		inTime = b.apart.serve(batch)
		b.store.findOut(heard)
		return inTime
	}
	a := b.begin(batch)
	if a == nil {
		return true
	}
	target := batch[0].Request.target()
	reply, err := a.Eval(target, func() []any { return b.command(batch) }, target.Rule.Script.Source)
	if !a.End(err) {
		return false
	}
	if err != nil && len(batch) > 1 && server.NotTogether(err) {
		if server.SeveralSlots(err) {
			// Behind that server is a cluster by now, where a script may have keys of one slot only.
			b.store.joint.mode.CompareAndSwap(joined, unproved)
		}
		for _, c := range batch {
			go resend(c)
		}
		return true
	}
	if err == nil {
		for _, c := range batch { // before they are answered, and used again
			b.store.noteAnswer(&c.Request.ledger.rule.Binding)
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
}

// newPipeline returns where requests wait that go to a node.
func newPipeline(s *Store, own *server.Server) *pipeline {
	p := &pipeline{together{store: s, server: own}}
	p.queue = newQueue(p.serve, 0, own.Limit()) // a node's client does not heed deadlines
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
		if err := cmd.Err(); server.IsFailure(err) && !server.NotRun(err) {
			failure = a.LateOr(err)
		}
	}
	if !a.End(failure) {
		return false
	}
	for i, c := range batch {
		switch reply, err := server.Text(cmds[i]); {
		case err == nil:
			r := &c.Request
			p.store.noteAnswer(&r.ledger.rule.Binding)
			c.Answer(r.read(reply))
		case server.NotRun(err):
			go resend(c)
		default:
			c.Answer(core.Decision{}, a.LateOr(err))
		}
	}
	return true
}

// exec sends a script for each call and waits for the replies.
func (p *pipeline) exec(a *server.Attempt, batch []*call) []redis.Cmder {
	calls := make([][]any, len(batch))
	for i, c := range batch {
		calls[i] = c.Request.args
		if calls[i] == nil {
			calls[i] = c.Request.ledger.rule.Call(&c.Request.Ask)
		}
	}
	return a.Pipeline(batch[0].Request.target(), calls)
}
