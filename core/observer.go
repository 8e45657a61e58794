package core

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sashlimit/sash/internal/errs"
)

// Observer is told of every decision, in the goroutine of the request, with its ctx, before the caller has the answer.
// It must be quick and safe for concurrent use. Its panic ends the request as one of a handler does.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// Event is one decision as an [Observer] sees it.
type Event struct {
	Name     string // Config.Name
	Rule     string // the rule's name, empty for the limiter itself
	Label    string // Request.Label, such as the pattern of a route
	Key      string // the client; may be anything, so escape it in logs and keep it out of metric labels
	Cost     int64
	Peek     bool
	Decision Decision
	Shadow   bool  // Request.Shadow: the request goes on even if the decision is a refusal
	Stage    Stage // [StageOf] Decision.Err

	// Elapsed is the duration of the decision, waits for stores included. Where the store is [Immediate], one decision
	// in 16 is measured, at random, and of others it is 0.
	Elapsed time.Duration
}

// ObserverFunc makes a function an [Observer].
type ObserverFunc func(ctx context.Context, e Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// Silent is an [Observer] that keeps a limiter from logging.
var Silent Observer = silence{}

type silence struct{}

// Observe does nothing.
func (silence) Observe(context.Context, Event) {}

// Observers returns an [Observer] that hands every event to each of the observers, in order. With
// LogErrors(slog.Default(), time.Minute) the default lines stay.
func Observers(observers ...Observer) Observer {
	for i, o := range observers {
		if errs.IsNil(o) {
			return wrongObserver{err: fmt.Errorf("sash: observer %d of core.Observers is %s: leave it out",
				i+1, errs.NilName(o))}
		}
		if wrong, ok := o.(wrongObserver); ok {
			return wrong
		}
	}
	return observerList(slices.Clone(observers))
}

// wrongObserver stands for an Observer that could not be made. New returns the error.
type wrongObserver struct {
	silence
	err error
}

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

// timedShare is the number of decisions of a store that never waits for each whose
// time is measured: to read the clock twice takes about as long as such a decision.
const timedShare = 16

// startOfTimed returns the present if the observer is told how long the decision takes, and
// else the zero Time.
func (l *Limiter) startOfTimed() (start time.Time) {
	if !l.observed || !l.waits && rand.Uint32()%timedShare != 0 {
		return start
	}
	return time.Now()
}

// since returns the time since start; 0 if start is zero.
func since(start time.Time) time.Duration {
	if start.IsZero() {
		return 0
	}
	return time.Since(start)
}

// Report tells the observer of a decision that middleware has made without the limiter, such as to
// refuse a request that names no client.
func (l *Limiter) Report(ctx context.Context, r Request, d Decision) { l.report(ctx, &r, &d, 0) }

// Observed reports whether an observer other than that of [LogErrors] is told of every decision. Else
// middleware need not look up a Label, say.
func (l *Limiter) Observed() bool { return l.observed }

// report tells the observer of a decision that took so long.
func (l *Limiter) report(ctx context.Context, r *Request, d *Decision, elapsed time.Duration) {
	if l.watched(d) {
		l.config.Observer.Observe(ctx, l.event(r, d, elapsed))
	}
}

// watched reports whether the observer does anything about a decision.
func (l *Limiter) watched(d *Decision) bool {
	return l.observed || l.log != nil && l.log.observes(d)
}

// event returns the event of a decision, for an observer.
func (l *Limiter) event(r *Request, d *Decision, elapsed time.Duration) Event {
	e := Event{
		Name: l.config.Name, Rule: l.rule, Label: r.Label, Key: r.Key, Cost: r.Cost, Peek: r.Peek,
		Decision: *d, Shadow: r.Shadow, Elapsed: elapsed,
	}
	if d.Err != nil {
		e.Stage = StageOf(d.Err)
	}
	return e
}

// setObserver sets the observers of decisions and of notices, by the config.
func (l *Limiter) setObserver() {
	l.notices, _ = l.config.Observer.(NoticeObserver)
	l.begun.Store(l.notices == nil) // then nothing is to be said
	switch o := l.config.Observer.(type) {
	case silence:
	case *errorLog:
		l.log = o
	default:
		l.observed = true
	}
}
