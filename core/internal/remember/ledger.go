package remember

import (
	"context"
	"time"

	"github.com/sashlimit/sash/core"
)

// Wrap returns next with refusals remembered in front of it. Every rule whose requests next decides must be wrapped in
// the same Refusals, since a Return and a Reset end the refusals of a client under all of them.
func (r *Refusals) Wrap(next core.Ledger) core.Ledger { return &ledger{r.Rule(), next} }

// ledger is the link that refuses from memory, and remembers what the next link refuses. Usage is the next link's,
// whatever is remembered.
type ledger struct {
	rule        Rule
	core.Ledger // the next link
}

// Take implements [core.Ledger]. A charge is never refused. Of a request that is counted ahead of time a refusal is
// neither told nor remembered: the question is how many units there are to lease, not whether the client may pass.
func (l *ledger) Take(ctx context.Context, ask core.Ask) (d core.Decision, err error) {
	rule, refusable, ahead := l.rule, true, false
	if s := ask.Override; s != nil {
		ahead = s.Ahead > 0
		refusable = !s.Charge && !ahead
		if s.Limits != nil {
			rule = rule.With(s.Limits)
		}
	}
	if refusable && rule.Lookup(ask.Key, ask.Cost, &d, true) {
		return d, nil
	}
	sent := time.Now()
	d, err = l.Ledger.Take(ctx, ask)
	if ask.Override != nil && !ahead && !ask.Peek && ask.Cost > 0 && (err != nil || d.Allowed) {
		// It may have been counted although the rule's limits refuse.
		rule.refusals.Changed(ask.Key)
	}
	switch {
	case err == nil:
		if refusable || ahead && d.Allowed {
			rule.Note(ask.Key, ask.Cost, sent, d)
		}
	case !refusable:
	case ctx.Err() != nil:
		rule.Unanswered(ask.Key, ask.Cost)
	case unsent(err) && rule.Lookup(ask.Key, ask.Cost, &d, false):
		err = nil
	}
	return d, err
}

// unsent reports whether a request that failed with err was certainly not sent: then it is not counted, and a
// remembered refusal may answer it. Any other request may have been counted, and the policy has to answer.
func unsent(err error) bool {
	switch core.StageOf(err) {
	case core.StageNotAsked, core.StageQueued, core.StageConnect:
		return true
	}
	return false
}

// Return implements [core.Ledger]. Refusals of the client end whatever becomes of the call, since the units may have
// gone back.
func (l *ledger) Return(ctx context.Context, back core.Refund) (int64, error) {
	units, err := l.Ledger.Return(ctx, back)
	l.rule.refusals.Changed(back.Key)
	return units, err
}

// Reset implements [core.Ledger]. This process sees the reset at once, others within a second. A reset that fails may
// have deleted the counts, so refusals of the client end then too. But if ctx has ended already, nothing is done.
func (l *ledger) Reset(ctx context.Context, key string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := l.Ledger.Reset(ctx, key)
	l.rule.refusals.Changed(key)
	return err
}
