package storetest

import (
	"context"

	"github.com/sashlimit/sash/core"
)

// Wrap returns a store that gives every call to f instead of store. So a test has a store
// that is slow, that fails, that answers something else, or that notes its calls:
//
//	slow := storetest.Wrap(store, func(ctx context.Context, call storetest.Call) (core.Decision, error) {
//		time.Sleep(time.Second)
//		return call.Next(ctx)
//	})
//
// The Decision of f is the answer to a Take. An error of f is the answer to any call. Without
// an error, and without Next, a Usage finds nothing used and a Return takes back all units.
//
// Several goroutines call f at once if they use the limiter at once. The store is never
// [core.Immediate].
func Wrap(store core.Store, f func(context.Context, Call) (core.Decision, error)) core.Store {
	return &wrapped{store, f}
}

// Call is a call that a limiter makes of its store.
type Call struct {
	Verb string       // "Take", "Usage", "Return" or "Reset"
	Rule core.Binding // what the store was bound to
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

// Next makes the call of the wrapped store. The Decision is that of a Take.
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
	return wrappedCounts{w.f, rule, counts}, nil
}

// wrappedCounts gives the calls of a rule to f.
type wrappedCounts struct {
	f      func(context.Context, Call) (core.Decision, error)
	rule   core.Binding
	counts core.Ledger
}

// Take implements core.Ledger.
func (c wrappedCounts) Take(ctx context.Context, ask core.Ask) core.Decision {
	d, err := c.f(ctx, Call{Verb: "Take", Rule: c.rule, Key: ask.Key, Ask: ask, counts: c.counts})
	d.Err = err
	return d
}

// Usage implements core.Ledger.
func (c wrappedCounts) Usage(ctx context.Context, key string) ([]core.Usage, error) {
	r := result{uses: make([]core.Usage, len(c.rule.Limits))}
	_, err := c.f(ctx, Call{Verb: "Usage", Rule: c.rule, Key: key, counts: c.counts, result: &r})
	return r.uses, err
}

// Return implements core.Ledger.
func (c wrappedCounts) Return(ctx context.Context, back core.Refund) (int64, error) {
	r := result{units: back.Units}
	_, err := c.f(ctx, Call{Verb: "Return", Rule: c.rule, Key: back.Key, Back: back, counts: c.counts, result: &r})
	return r.units, err
}

// Reset implements core.Ledger.
func (c wrappedCounts) Reset(ctx context.Context, key string) error {
	_, err := c.f(ctx, Call{Verb: "Reset", Rule: c.rule, Key: key, counts: c.counts})
	return err
}
