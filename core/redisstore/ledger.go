package redisstore

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
)

// ledger is a rule bound to its store, and the last link of the chain: it asks Redis. command.go makes what it sends,
// and reply.go reads what comes back.
type ledger struct {
	store    *Store
	rule     core.Binding
	script   script
	numkeys  any      // the number of limits, as an argument
	args     []any    // of the script, for all limits
	suffixes []string // of the keys, a limit each

	ahead int64                  // how far ahead of the server's clock requests are counted, in microseconds
	other atomic.Pointer[ledger] // see with
}

var _ core.Ledger = (*ledger)(nil)

// newLedger returns how s counts by rule.
func (s *Store) newLedger(rule core.Binding) *ledger {
	l := &ledger{
		store: s, rule: rule, script: s.script(false, rule.Limits),
		numkeys: strconv.Itoa(len(rule.Limits)),
		args:    limitArgs(rule.Limits),
	}
	for _, limit := range rule.Limits {
		l.suffixes = append(l.suffixes, suffix(limit))
	}
	return l
}

// with returns l with other limits on the same counts, and with requests counted so far ahead. The latest is kept: the
// leases of a rule all have one length, and many clients have the same plan.
func (l *ledger) with(limits []core.Limit, ahead time.Duration) *ledger {
	if o := l.other.Load(); o != nil && o.ahead == ahead.Microseconds() && slices.Equal(o.rule.Limits, limits) {
		return o
	}
	o := &ledger{
		store: l.store, rule: l.rule, script: l.script, numkeys: l.numkeys, suffixes: l.suffixes,
		args: limitArgs(limits), ahead: ahead.Microseconds(),
	}
	o.rule.Limits = slices.Clone(limits)
	if ahead > 0 {
		o.script, o.args = l.store.script(true, limits), append(o.args, micros(ahead))
	}
	l.other.Store(o)
	return o
}

// request is a request on its way to Redis.
type request struct {
	core.Ask
	ledger   *ledger      // by which the request is decided
	deadline time.Time    // the zero time is none
	uses     []core.Usage // of a Usage, which is sent as a request of cost 0: what to fill in
	args     []any        // the script's call for this request alone; nil for batches, which build one for all
}

// Take implements [core.Ledger]. A request goes together with others that wait for the same server: in one script, see
// batches, or in one pipeline. While the server's breaker is not closed it goes alone, and so does what cannot go
// together.
func (l *ledger) Take(ctx context.Context, ask core.Ask) (core.Decision, error) {
	if o := ask.Override; o != nil && (o.Limits != nil || o.Ahead > 0) {
		limits := o.Limits
		if limits == nil {
			limits = l.rule.Limits
		}
		l = l.with(limits, o.Ahead)
	}
	q := request{Ask: ask, ledger: l}
	if ask.Timeout > 0 {
		q.deadline = time.Now().Add(ask.Timeout)
	}
	return q.send(ctx)
}

// send has a request decided, together with others if it can.
func (q *request) send(ctx context.Context) (core.Decision, error) {
	l := q.ledger
	if b := l.script.batches; b != nil && b.breaker.closed() {
		return b.Do(ctx, q.deadline, q)
	}
	q.args = l.command(&q.Ask)
	if p := l.store.client.server(ctx, firstKey(q.args)).pipeline; p != nil && p.breaker.closed() {
		return p.Do(ctx, q.deadline, q)
	}
	return q.alone(ctx)
}

// alone has a request decided by itself.
func (q *request) alone(ctx context.Context) (core.Decision, error) {
	l := q.ledger
	if q.args == nil {
		q.args = l.command(&q.Ask)
	}
	if !q.deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, q.deadline, core.ErrTimeout)
		defer cancel()
	}
	reply, err := target{l, q.Key}.eval(ctx, q.deadline, q.args, l.script.source)
	if err != nil {
		return core.Decision{}, err
	}
	l.store.client.noteAnswer(l.store.client.first.breaker, nil, &l.rule)
	return q.read(reply)
}

// Usage implements [core.Ledger]. It asks by the rule's script with a cost of 0, which writes nothing, together with
// others as a decision.
func (l *ledger) Usage(ctx context.Context, key string) ([]core.Usage, error) {
	q := request{Ask: core.Ask{Key: key}, ledger: l, uses: make([]core.Usage, len(l.rule.Limits))}
	if _, err := q.send(ctx); err != nil {
		return nil, err
	}
	return q.uses, nil
}

// Return implements [core.Ledger]. It sends a script of its own, once.
func (l *ledger) Return(ctx context.Context, back core.Refund) (int64, error) {
	s := returning()
	reply, err := target{l, back.Key}.eval(ctx, time.Time{}, l.returnCommand(s, back), s.source)
	if err != nil {
		return 0, err
	}
	units, err := strconv.ParseInt(reply, 10, 64)
	if err != nil || units < 0 || units > back.Units {
		return 0, notRead(reply)
	}
	return units, nil
}

// Reset implements [core.Ledger]. It waits until ctx ends (TestDelEnds). The breaker is not asked: a Reset is rare, and
// an operator's.
func (l *ledger) Reset(ctx context.Context, key string) error {
	return l.store.client.del(ctx, l.keys([]any{"del"}, key))
}
