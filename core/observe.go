package core

import (
	"context"
	"math/rand/v2"
	"time"
)

// timedShare is the number of decisions of a store that never waits for each whose
// time is measured: to read the clock twice takes about as long as such a decision.
const timedShare = 16

// Decide is the general form of Allow, AllowN and Peek.
func (l *Limiter) Decide(ctx context.Context, r Request) (d Decision) {
	if !l.begun.Load() {
		l.begin(ctx)
	}
	start := l.startOfTimed()
	// Not by functions of their own, since a Decision is so large that each copy takes 5 ns.
	if err := r.check(ctx, l); err != nil {
		d.Err = err
	} else if d, err = l.counts.Take(ctx, r.ask(l.firstTimeout)); err != nil {
		d = l.onStoreError(ctx, &r, err)
	} else {
		d.Err = nil
		if d.Source == SourceUnasked {
			d.Source = SourceCounted
		}
	}
	if !r.unreported && l.watched(&d) {
		l.report(ctx, &r, &d, since(start))
	}
	return d
}

// startOfTimed returns the present if the observer hears how long the decision takes, and
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

// report tells the observer of a decision that took so long.
func (l *Limiter) report(ctx context.Context, r *Request, d *Decision, elapsed time.Duration) {
	if l.watched(d) {
		l.config.Observer.Observe(ctx, l.event(r, d, elapsed))
	}
}

// watched reports whether the observer does anything about a decision.
func (l *Limiter) watched(d *Decision) bool {
	return l.observed || l.log != nil && l.log.hears(d)
}

// event returns what an observer hears of a decision.
func (l *Limiter) event(r *Request, d *Decision, elapsed time.Duration) Event {
	e := Event{
		Name: l.config.Name, Rule: l.rule, Label: r.Label, Key: r.Key, Cost: r.Cost, Peek: r.Peek,
		Decision: *d, Shadow: r.Shadow, Elapsed: elapsed,
	}
	if d.Err != nil {
		e.Stage = StageOf(d.Err)
	}
	if r.Status != nil {
		e.Status = r.Status(*d)
	}
	return e
}

// setObserver sets what hears of decisions and of notices, by the config.
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
