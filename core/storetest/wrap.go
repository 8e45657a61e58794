package storetest

import (
	"context"

	"github.com/sashlimit/sash/core"
)

// Wrap returns a store that passes every call to f instead of store, to make it slow, to make it fail, to change its
// answers or to record its calls:
//
//	slow := storetest.Wrap(store, func(ctx context.Context, call storetest.Call) (core.Decision, error) {
//		time.Sleep(time.Second)
//		return call.Next(ctx)
//	})
//
// The Decision of f is the answer to a Take, and the error of f that to any call. If f returns no error and does not
// call Next, a Usage has no used units and a Return takes back all units.
//
// f must be safe for concurrent use if the limiter is used concurrently. The store is never [core.Immediate].
func Wrap(store core.Store, f func(context.Context, Call) (core.Decision, error)) core.Store {
	return &wrapped{store, f}
}

// Call is a limiter's call of its store.
type Call struct {
	Verb string       // "Take", "Usage", "Return" or "Reset"
	Rule core.Binding // binding of the ledger
	Key  string       // the client
	Ask  core.Ask     // of a Take
	Back core.Refund  // of a Return

	counts core.Ledger
	result *result // of a Usage and a Return
}

// result holds the answers that are not a Decision.
type result struct {
	uses  []core.Usage
	units int64
}

// Next makes the call of the wrapped store. The Decision is zero except for a Take.
func (c Call) Next(ctx context.Context) (d core.Decision, err error) {
	switch c.Verb {
	case "Take":
		d = c.counts.Take(ctx, c.Ask)
		return d, d.Err
	case "Usage":
		c.result.uses, err = c.counts.Usage(ctx, c.Key)
	case "Return":
		c.result.units, err = c.counts.Return(ctx, c.Back)
	default:
		err = c.counts.Reset(ctx, c.Key)
	}
	return d, err
}

// wrapped is the store of Wrap.
type wrapped struct {
	core.Store
	f func(context.Context, Call) (core.Decision, error)
}

// Bind implements core.Store.
func (w *wrapped) Bind(rule core.Binding) (core.Ledger, error) {
	counts, err := w.Store.Bind(rule)
	if err != nil {
		return nil, err
	}
	return wrappedLedger{w.f, rule, counts}, nil
}

// wrappedLedger passes the calls of a rule to f.
type wrappedLedger struct {
	f      func(context.Context, Call) (core.Decision, error)
	rule   core.Binding
	counts core.Ledger
}

// Take implements core.Ledger.
func (c wrappedLedger) Take(ctx context.Context, ask core.Ask) core.Decision {
	d, err := c.f(ctx, Call{Verb: "Take", Rule: c.rule, Key: ask.Key, Ask: ask, counts: c.counts})
	d.Err = err
	return d
}

// Usage implements core.Ledger.
func (c wrappedLedger) Usage(ctx context.Context, key string) ([]core.Usage, error) {
	r := result{uses: make([]core.Usage, len(c.rule.Limits))}
	_, err := c.f(ctx, Call{Verb: "Usage", Rule: c.rule, Key: key, counts: c.counts, result: &r})
	return r.uses, err
}

// Return implements core.Ledger.
func (c wrappedLedger) Return(ctx context.Context, back core.Refund) (int64, error) {
	r := result{units: back.Units}
	_, err := c.f(ctx, Call{Verb: "Return", Rule: c.rule, Key: back.Key, Back: back, counts: c.counts, result: &r})
	return r.units, err
}

// Reset implements core.Ledger.
func (c wrappedLedger) Reset(ctx context.Context, key string) error {
	_, err := c.f(ctx, Call{Verb: "Reset", Rule: c.rule, Key: key, counts: c.counts})
	return err
}
