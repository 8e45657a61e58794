package redisstore

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
	"github.com/sashlimit/sash/core/redisstore/internal/server"
)

// ledger is a rule bound to its store, and the last link of the chain: it asks Redis.
type ledger struct {
	store  *Store
	rule   script.Rule
	latest atomic.Pointer[ledger] // see with
}

var _ core.Ledger = (*ledger)(nil)

// newLedger returns how s counts by rule.
func (s *Store) newLedger(rule core.Binding) *ledger {
	return &ledger{store: s, rule: script.New(s.prefix, rule, s.script(false, rule.Limits))}
}

// with returns l with other limits on the same counts, and with requests counted ahead of the server's clock. The
// latest is cached: the leases of a rule all have one length, and many clients have the same plan.
func (l *ledger) with(o *core.Override) *ledger {
	limits := o.Limits
	if limits == nil {
		limits = l.rule.Limits
	}
	if d := l.latest.Load(); d != nil && d.rule.Has(limits, o.Delay) {
		return d
	}
	own := l.rule.Script
	if o.Delay > 0 || !slices.EqualFunc(limits, l.rule.Limits, sameWindow) {
		own = l.store.script(o.Delay > 0, limits)
	}
	d := &ledger{store: l.store, rule: l.rule.With(limits, o.Delay, own)}
	l.latest.Store(d)
	return d
}

func sameWindow(a, b core.Limit) bool { return a.Window == b.Window }

// Take implements [core.Ledger].
func (l *ledger) Take(ctx context.Context, ask core.Ask) core.Decision {
	if o := ask.Override; o != nil && (o.Limits != nil || o.Delay > 0) {
		l = l.with(o)
	}
	var deadline time.Time
	if ask.Timeout > 0 {
		deadline = time.Now().Add(ask.Timeout)
	}
	d, err := l.store.client.Do(ctx, deadline, &server.Request{Ask: ask, Rule: &l.rule})
	d.Err = err
	return d
}

// Usage implements [core.Ledger]. It asks by the rule's script with a cost of 0, which writes nothing.
func (l *ledger) Usage(ctx context.Context, key string) ([]core.Usage, error) {
	r := server.Request{Ask: core.Ask{Key: key}, Rule: &l.rule, Usage: make([]core.Usage, len(l.rule.Limits))}
	if _, err := l.store.client.Do(ctx, time.Time{}, &r); err != nil {
		return nil, err
	}
	return r.Usage, nil
}

// Return implements [core.Ledger]. It sends a script of its own, once.
func (l *ledger) Return(ctx context.Context, back core.Refund) (int64, error) {
	s := script.Return()
	units, err := l.command(ctx, back.Key, l.rule.ReturnArgs(s, back), s.Source)
	if err == nil && (units < 0 || units > back.Units) {
		return 0, script.NotRead(strconv.FormatInt(units, 10))
	}
	return units, err
}

// Reset implements [core.Ledger].
func (l *ledger) Reset(ctx context.Context, key string) error {
	_, err := l.command(ctx, key, l.rule.Keys([]any{"del"}, key), "")
	return err
}

// command has a command about key sent, and returns the number in its reply.
func (l *ledger) command(ctx context.Context, key string, args []any, source string) (int64, error) {
	c := server.Command{Args: args, Source: source}
	r := server.Request{Ask: core.Ask{Key: key}, Rule: &l.rule, Command: &c}
	if _, err := l.store.client.Do(ctx, time.Time{}, &r); err != nil {
		return 0, err
	}
	return c.Result, nil
}
