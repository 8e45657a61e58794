package redisstore

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
	"github.com/sashlimit/sash/core/redisstore/internal/server"
)

// ledger is a rule bound to its store, and the last link of the chain: it asks Redis. Its rule makes what it sends, and
// reads what comes back.
type ledger struct {
	store   *Store
	rule    script.Rule
	batches *batches               // where requests wait; nil where each must be sent by itself
	other   atomic.Pointer[ledger] // see with
}

var _ core.Ledger = (*ledger)(nil)

// newLedger returns how s counts by rule.
func (s *Store) newLedger(rule core.Binding) *ledger {
	own := s.script(false, rule.Limits)
	return &ledger{store: s, rule: script.New(s.prefix, rule, own.Script), batches: own.batches}
}

// with returns l with other limits on the same counts, and with requests counted so far ahead. The latest is kept: the
// leases of a rule all have one length, and many clients have the same plan.
func (l *ledger) with(limits []core.Limit, ahead time.Duration) *ledger {
	if o := l.other.Load(); o != nil && o.rule.Has(limits, ahead) {
		return o
	}
	own := kept{l.rule.Script, l.batches}
	if ahead > 0 {
		own = l.store.script(true, limits)
	}
	o := &ledger{store: l.store, rule: l.rule.With(limits, ahead, own.Script), batches: own.batches}
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
func (l *ledger) Take(ctx context.Context, ask core.Ask) core.Decision {
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
	d, err := q.route(ctx)
	d.Err = err
	return d
}

// target returns what a connection for the request is wanted for.
func (q *request) target() server.Target { return server.Target{Rule: &q.ledger.rule, Key: q.Key} }

// route has a request decided, together with others if it can.
func (q *request) route(ctx context.Context) (core.Decision, error) {
	l := q.ledger
	if b := l.batches; b != nil && b.server.Closed() {
		return b.Do(ctx, q.deadline, q)
	}
	q.args = l.rule.Call(&q.Ask)
	if p, _ := l.store.client.Server(ctx, script.FirstKey(q.args)).Requests.(*pipeline); p != nil && p.server.Closed() {
		return p.Do(ctx, q.deadline, q)
	}
	return q.alone(ctx)
}

// alone has a request decided by itself.
func (q *request) alone(ctx context.Context) (core.Decision, error) {
	l := q.ledger
	if q.args == nil {
		q.args = l.rule.Call(&q.Ask)
	}
	if !q.deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, q.deadline, core.ErrTimeout)
		defer cancel()
	}
	reply, err := l.send(ctx, q.deadline, q.Key, q.args, l.rule.Script.Source)
	if err != nil {
		return core.Decision{}, err
	}
	l.store.noteAnswer(&l.rule.Binding)
	return q.read(reply)
}

// send sends a script of a client by itself.
func (l *ledger) send(ctx context.Context, deadline time.Time, key string, args []any, source string) (string, error) {
	return l.store.client.Alone(ctx, deadline, server.Target{Rule: &l.rule, Key: key}, args, source)
}

// read reads the script's reply to one request.
func (q *request) read(reply string) (core.Decision, error) {
	d, err := q.ledger.rule.ReadAlone(reply, &q.Ask, q.uses)
	if err != nil {
		err = withRemedy(err)
	}
	return d, err
}

// readPart reads the part of a reply for one request, as [script.Rule.Read].
func (q *request) readPart(part string, now int64) (core.Decision, string, error) {
	d, rest, err := q.ledger.rule.Read(part, now, &q.Ask, q.uses)
	if err != nil {
		err = withRemedy(err)
	}
	return d, rest, err
}

// withRemedy adds the remedy to an error of reading, unless the reply is one that no script of the store gives.
func withRemedy(err error) error {
	if errors.Is(err, script.ErrReply) || errors.Is(err, script.ErrDisagree) {
		return err
	}
	return server.Remedied(err)
}

// Usage implements [core.Ledger]. It asks by the rule's script with a cost of 0, which writes nothing, together with
// others as a decision.
func (l *ledger) Usage(ctx context.Context, key string) ([]core.Usage, error) {
	q := request{Ask: core.Ask{Key: key}, ledger: l, uses: make([]core.Usage, len(l.rule.Limits))}
	if _, err := q.route(ctx); err != nil {
		return nil, err
	}
	return q.uses, nil
}

// Return implements [core.Ledger]. It sends a script of its own, once.
func (l *ledger) Return(ctx context.Context, back core.Refund) (int64, error) {
	s := script.Return()
	reply, err := l.send(ctx, time.Time{}, back.Key, l.rule.ReturnCall(s, back), s.Source)
	if err != nil {
		return 0, err
	}
	units, err := strconv.ParseInt(reply, 10, 64)
	if err != nil || units < 0 || units > back.Units {
		return 0, script.NotRead(reply)
	}
	return units, nil
}

// Reset implements [core.Ledger]. It waits until ctx ends. The breaker is not asked: a Reset is rare, and
// an operator's.
func (l *ledger) Reset(ctx context.Context, key string) error {
	return l.store.client.Del(ctx, l.rule.Keys([]any{"del"}, key))
}
