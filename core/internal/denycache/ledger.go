package denycache

import (
	"context"
	"time"

	"github.com/sashlimit/sash/core"
)

// Wrap returns next, which decides by the rule of a binding, with refusals remembered in front of it. Rules on the same
// counts must be wrapped in the same Refusals: a Return, a Reset and an admission by other limits end the refusals of a
// client under all of them.
func (r *Refusals) Wrap(by core.Binding, next core.Ledger) core.Ledger {
	return &ledger{r.Rule(by), next}
}

// ledger is the link that refuses from memory, and remembers what the next link refuses. Usage is the next link's,
// whatever is remembered.
type ledger struct {
	rule        Rule
	core.Ledger // the next link
}

// Take implements [core.Ledger]. A charge and a request for a lease go to the next link, and a refusal of them is not
// remembered.
func (l *ledger) Take(ctx context.Context, ask core.Ask) (d core.Decision) {
	rule, o := l.rule, ask.Override
	if o != nil && o.Limits != nil {
		rule = rule.with(o.Limits)
	}
	refusable := o == nil || !o.Charge && o.Ahead == 0
	if refusable && rule.Lookup(ask.Key, ask.Cost, &d, true) {
		return d
	}
	sent := time.Now()
	d = l.Ledger.Take(ctx, ask)
	err := d.Err
	if ask.Cost > 0 && !ask.Peek && (d.Allowed || err != nil && !unsent(err)) && rule.beyond(o) {
		rule.Changed(ask.Key)
	}
	switch {
	case !refusable:
	case err == nil:
		rule.Note(ask.Key, ask.Cost, sent, d)
	case ctx.Err() != nil:
		rule.Unanswered(ask.Key, ask.Cost)
	case unsent(err) && rule.Lookup(ask.Key, ask.Cost, &d, false):
		d.Err = nil
	}
	return d
}

// unsent reports whether a request that failed with err was certainly not sent: then it is not counted, and a
// remembered refusal may answer it. Any other request may have been counted, and the policy has to answer.
func unsent(err error) bool {
	switch core.StageOf(err) {
	case core.StageUnavailable, core.StageQueued, core.StageConnect:
		return true
	}
	return false
}

// Return implements [core.Ledger]. Refusals of the client end whatever becomes of the call, since the units may have
// gone back.
func (l *ledger) Return(ctx context.Context, back core.Refund) (int64, error) {
	units, err := l.Ledger.Return(ctx, back)
	l.rule.Changed(back.Key)
	return units, err
}

// Reset implements [core.Ledger]. This process sees the reset at once, others within a second. A reset that fails may
// have deleted the counts, so refusals of the client end then too. But if ctx has ended already, nothing is done.
func (l *ledger) Reset(ctx context.Context, key string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := l.Ledger.Reset(ctx, key)
	l.rule.Changed(key)
	return err
}
