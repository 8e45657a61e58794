package redisstore

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/sashlimit/sash/core"
)

// counts is a rule bound to its store.
type counts struct {
	store    *Store
	id       uint64 // in the store
	rule     core.Rule
	script   script
	batches  *batches // nil where each request must be sent by itself
	numkeys  any      // the number of limits, as an argument
	args     []any    // of the script, for all limits
	suffixes []string // of the keys, a limit each
	ahead    int64    // of the server's clock is what is counted stamped: for a lease
}

var _ core.Counts = (*counts)(nil)

// appendKeys appends the keys of a client, a limit each, to text, and where each
// of them ends to ends.
func (c *counts) appendKeys(text []byte, ends []int, client string) ([]byte, []int) {
	start := len(text)
	text = append(append(text, c.store.prefix...), ':')
	text = appendTag(text, c.rule.Name, c.rule.Rule, client)
	tagged := len(text)
	for i, suffix := range c.suffixes {
		if i > 0 {
			text = append(text, text[start:tagged]...)
		}
		text = append(text, suffix...)
		ends = append(ends, len(text))
	}
	return text, ends
}

// cut appends the parts of text that end at ends.
func cut(dst []any, text string, ends []int) []any {
	start := 0
	for _, end := range ends {
		dst = append(dst, text[start:end])
		start = end
	}
	return dst
}

// keys appends the keys of a client, a limit each.
func (c *counts) keys(dst []any, client string) []any {
	var few [192]byte
	var some [4]int
	text, ends := c.appendKeys(few[:0], some[:0], client)
	return cut(dst, string(text), ends)
}

// Take implements [core.Counts].
func (c *counts) Take(ctx context.Context, ask core.Ask) (d core.Decision, err error) {
	if found, _ := c.find(ask.Key, ask.Cost, &d); found {
		return d, nil
	}
	now := time.Now()
	return c.decide(ctx, now, deadlineOf(now, ask.Timeout), ask.Key, ask.Cost, !ask.Peek)
}

// deadlineOf returns when a timeout that begins now is over, or the zero time for no
// timeout.
func deadlineOf(now time.Time, timeout time.Duration) time.Time {
	if timeout <= 0 {
		return time.Time{}
	}
	return now.Add(timeout)
}

// find sets d to a refusal that stands, if there is one; see denials.find.
func (c *counts) find(key string, cost int64, d *core.Decision) (found, asks bool) {
	if cost == 0 {
		return false, false
	}
	return c.store.denials.find(c, key, cost, d)
}

// take asks, and remembers a refusal. It waits until ctx ends or the deadline
// has passed; the zero time is none.
func (c *counts) take(
	ctx context.Context, deadline time.Time, key string, cost int64, charge bool,
) (core.Decision, error) {
	return c.decide(ctx, time.Now(), deadline, key, cost, charge)
}

func (c *counts) decide(
	ctx context.Context, now, deadline time.Time, key string, cost int64, charge bool,
) (core.Decision, error) {
	d, err := c.ask(ctx, deadline, key, cost, charge)
	switch {
	case err == nil:
		c.store.denials.note(c, key, cost, now, d)
	case isCallers(err):
		c.store.denials.unanswered(c, key, cost)
	case unsent(err) && c.store.denials.stands(c, key, cost, &d):
		err = nil
	}
	return d, err
}

// unsent reports whether a request that failed with err was certainly not sent: then
// it is not counted, and a remembered refusal may answer it. Any other request may
// have been counted, and the policy has to answer.
func unsent(err error) bool {
	var op *net.OpError
	return err == errOpen || errors.As(err, &op) && op.Op == "dial"
}

// ask has the script decide, together with what waits for the same server, if
// that answers.
func (c *counts) ask(
	ctx context.Context, deadline time.Time, key string, cost int64, charge bool,
) (core.Decision, error) {
	if c.batches != nil && c.store.client.apart.Load() == nil && !c.batches.breaker.notClosed.Load() {
		return c.batches.Do(ctx, deadline, request{c, key, cost, charge, nil})
	}
	args := c.command(key, cost, charge)
	if p := c.store.client.pipeline(ctx, args[3].(string)); p != nil && !p.breaker.notClosed.Load() {
		return p.Do(ctx, deadline, request{c, key, cost, charge, args})
	}
	return c.evalAlone(ctx, deadline, args, cost, charge)
}

// askAlone has the script decide one request.
func (c *counts) askAlone(
	ctx context.Context, deadline time.Time, key string, cost int64, charge bool,
) (core.Decision, error) {
	return c.evalAlone(ctx, deadline, c.command(key, cost, charge), cost, charge)
}

func (c *counts) evalAlone(
	ctx context.Context, deadline time.Time, args []any, cost int64, charge bool,
) (core.Decision, error) {
	ctx, cancel := withDeadline(ctx, deadline)
	defer cancel()
	reply, err := c.store.client.eval(ctx, deadline, args, c.script.source)
	if err != nil {
		return core.Decision{}, err
	}
	return c.readAlone(reply, cost, charge)
}

// withDeadline is for what heeds a context only. The zero time is no deadline.
func withDeadline(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	if deadline.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, deadline, core.ErrTimeout)
}

// command is the script's call for one request.
func (c *counts) command(key string, cost int64, charge bool) []any {
	args := make([]any, 0, 4+len(c.suffixes)+len(c.args))
	args = append(args, "evalsha", c.script.arg, c.numkeys)
	args = append(c.keys(args, key), c.args...)
	if cost == 1 && charge {
		return args
	}
	return append(args, costArg(cost, charge))
}

// costArg is the script's argument for what a request costs.
func costArg(cost int64, charge bool) any {
	if cost == 1 && charge {
		return "1" // a constant takes no memory
	}
	// Whatever exceeds every limit is refused alike; this keeps it exact in a double.
	n := min(cost, core.MaxCounterRequests+1)
	if !charge {
		n = -n
	}
	return strconv.FormatInt(n, 10)
}

// Reset implements [core.Counts]. This process sees the reset at once, others within
// a second. A reset that fails may have deleted the counts, so that the remembered
// refusals of the client are forgotten then too; but if ctx has ended already, nothing
// is done.
func (c *counts) Reset(ctx context.Context, key string) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	args := c.keys([]any{"del"}, key)
	err := c.store.client.del(ctx, args[1].(string), args)
	c.store.denials.forget(key)
	return err
}
