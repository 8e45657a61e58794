package core

import (
	"context"

	"github.com/sashlimit/sash/internal/hidden"
)

func init() { hidden.Limiters = hiddenMethods{} }

// hiddenMethods has the methods of a Limiter that only package nethttp calls; see package hidden.
// They take values where a pointer would need memory.
type hiddenMethods struct{}

// Observed reports whether an observer hears of every decision, and not a log of [LogErrors] alone:
// else nobody needs to find out what only events say.
func (hiddenMethods) Observed(l *Limiter) bool { return l.observed }

// Report tells the observer of a decision that was made without the limiter, such as to refuse a
// request that names no client.
func (hiddenMethods) Report(ctx context.Context, l *Limiter, r Request, d Decision) {
	l.report(ctx, &r, &d, 0)
}

// Notice tells the observer what was seen at a request; see Limiter.notice.
func (hiddenMethods) Notice(ctx context.Context, l *Limiter, code, text string) {
	l.notice(ctx, code, text)
}

// Hears reports whether the observer hears of notices with the code: else nobody needs to look for
// what they tell.
func (hiddenMethods) Hears(l *Limiter, code string) bool { return l.hears(code) }

// Shared returns what l and the copies that WithPolicy and WithLimits return of it have in common:
// the result of the first call's create.
func (hiddenMethods) Shared(l *Limiter, create func() any) any {
	l.shared.once.Do(func() { l.shared.value = create() })
	return l.shared.value
}
