package denycache

import (
	"context"
	"time"

	"github.com/sashlimit/sash/core"
)

// Wrap returns a ledger that caches the refusals of next, which decides by the rule of a binding. Rules on the same
// counts must share a Cache: a Return, a Reset and an admission by other limits end the client's refusals under all of
// them.
func (r *Cache) Wrap(by core.Binding, next core.Ledger) core.Ledger {
	return &ledger{r.Rule(by), next}
}

// ledger refuses from the cache, and caches the refusals of the next ledger. Usage is the next ledger's.
type ledger struct {
	rule        Rule
	core.Ledger // the next ledger
}

// Take implements [core.Ledger]. A charge and a request for a lease go to the next ledger, and their refusals are not
// cached.
func (l *ledger) Take(ctx context.Context, ask core.Ask) (d core.Decision) {
	rule, o := l.rule, ask.Override
	if o != nil && o.Limits != nil {
		rule = rule.withLimits(o.Limits)
	}
	cacheable := o == nil || !o.Charge && o.Delay == 0
	if cacheable && rule.Lookup(ask.Key, ask.Cost, &d, true) {
		return d
	}
	sent := time.Now()
	d = l.Ledger.Take(ctx, ask)
	err := d.Err
	if ask.Cost > 0 && !ask.Peek && (d.Allowed || err != nil && !isUnsent(err)) && rule.canBypass(o) {
		rule.Invalidate(ask.Key)
	}
	switch {
	case !cacheable:
	case err == nil:
		rule.Record(ask.Key, ask.Cost, sent, d)
	case ctx.Err() != nil:
		rule.Abandon(ask.Key, ask.Cost)
	case isUnsent(err) && rule.Lookup(ask.Key, ask.Cost, &d, false):
		d.Err = nil
	}
	return d
}

// isUnsent reports whether a request that failed with err was certainly not sent. It is not counted then, and a cached
// refusal may answer it. Any other request may have been counted, so the policy decides it.
func isUnsent(err error) bool {
	switch core.StageOf(err) {
	case core.StageUnavailable, core.StageQueued, core.StageConnect:
		return true
	}
	return false
}

// Return implements [core.Ledger]. It ends the client's refusals even if it fails, because the units may be back.
func (l *ledger) Return(ctx context.Context, back core.Refund) (int64, error) {
	units, err := l.Ledger.Return(ctx, back)
	l.rule.Invalidate(back.Key)
	return units, err
}

// Reset implements [core.Ledger]. It takes effect at once in this process, and within a second in others. It ends the
// client's refusals even if it fails, because the counts may be deleted. It does nothing if ctx has ended.
func (l *ledger) Reset(ctx context.Context, key string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := l.Ledger.Reset(ctx, key)
	l.rule.Invalidate(key)
	return err
}
