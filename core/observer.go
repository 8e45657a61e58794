package core

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sashlimit/sash/internal/errs"
)

// Observer hears of every decision: metrics and logs hang on it.
//
// Observe is called once per decision, in the goroutine of the request and
// before the caller has the answer. It must be quick and safe for concurrent
// use. ctx is the request's. An observer that panics ends the request as a panic of
// its handler does.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// Event is one decision as an [Observer] sees it; [Event.Outcome] sums it up in a word.
type Event struct {
	Name     string // Config.Name
	Rule     string // the rule's name, empty for the limiter itself
	Label    string // Request.Label: in HTTP the route's pattern
	Key      string // the client; may be anything, so escape it in logs and keep it out of metric labels
	Cost     int64
	Peek     bool
	Decision Decision

	Shadow bool // Request.Shadow: the request goes on even if the decision is a refusal

	// Elapsed is the duration of the decision: the wait for the store, and for the fallback.
	// Of a store that never waits (see [Immediate]) one decision in 16 is measured, drawn at
	// random; of the others Elapsed is 0.
	Elapsed time.Duration

	// Stage is that of Decision.Err, and tells how far the request came; see [StageOf].
	Stage Stage

	// Status is 0 outside HTTP, and else that of nethttp.Status: 200 if the request goes on to
	// its handler, else 429, 503, 400 or 500. With Shadow it is the status without it.
	Status int
}

// ObserverFunc makes a function an [Observer].
type ObserverFunc func(ctx context.Context, e Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// Silent is an [Observer] for Config.Observer that keeps a limiter from logging.
const Silent silence = 0

// silence is a constant, so that no program can reassign it.
type silence uint8

// Observe does nothing.
func (silence) Observe(context.Context, Event) {}

// Observers returns an [Observer] that hands every event to each of the observers, in
// this order; [New] refuses a nil one. To keep the lines that a limiter without
// an observer writes, join LogErrors(slog.Default(), time.Minute).
func Observers(observers ...Observer) Observer {
	for i, o := range observers {
		if errs.IsNil(o) {
			return wrongObserver{fmt.Errorf("sash: observer %d of core.Observers is %s: leave it out", i+1, errs.NilName(o))}
		}
		if wrong, ok := o.(wrongObserver); ok {
			return wrong
		}
	}
	return observerList(slices.Clone(observers))
}

// wrongObserver stands for an Observer that could not be made. New returns the error.
type wrongObserver struct{ error }

// Observe does nothing.
func (wrongObserver) Observe(context.Context, Event) {}

// observerList is the Observer of Observers.
type observerList []Observer

// Observe implements [Observer].
func (l observerList) Observe(ctx context.Context, e Event) {
	for _, o := range l {
		o.Observe(ctx, e)
	}
}

// Notice implements [NoticeObserver].
func (l observerList) Notice(ctx context.Context, n Notice) {
	for _, o := range l {
		if o, ok := o.(NoticeObserver); ok {
			o.Notice(ctx, n)
		}
	}
}
