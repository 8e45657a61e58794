package core

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
)

// LogErrors returns an Observer that writes to log, as warnings, why limits are not enforced: the store
// cannot be asked, requests name no client, a key function or that of the limits fails, or calls are
// malformed. A line says what happens to the requests, why, and what to do. Notices are written too,
// keys are not.
//
// Each trouble is written once in an interval for each limiter and rule, with the number of requests
// since; an interval of 0 writes each, and else it is at least 1 ms. An outage has a line when it
// begins, and one when the store has failed no request for a minute.
//
// A limiter without an observer has LogErrors(slog.Default(), time.Minute), and all of them together
// write at most 100 lines a minute.
func LogErrors(log *slog.Logger, interval time.Duration) Observer {
	if err := checkLogger("LogErrors", log); err != nil {
		return wrongObserver{err: err}
	}
	if interval != 0 && interval < minLogInterval {
		return wrongObserver{err: fmt.Errorf("sash: core.LogErrors(..., %v): give 0 or at least %v, such as time.Minute",
			interval, minLogInterval)}
	}
	return newErrorLog(func() *slog.Logger { return log }, interval, nil)
}

// checkLogger returns an error if the logger that was given to an observer cannot write.
func checkLogger(observer string, log *slog.Logger) error {
	if log == nil {
		return fmt.Errorf("sash: core.%s(nil, ...): give a logger, such as slog.Default()", observer)
	}
	if log.Handler() == nil {
		return fmt.Errorf("sash: the logger of core.%s has no handler: make it with slog.New, or give slog.Default()",
			observer)
	}
	return nil
}

// minLogInterval is the least interval of a log. Less is a number without a unit, such as 60.
const minLogInterval = time.Millisecond

// defaultErrorLog returns the observer of a limiter without one.
func defaultErrorLog() *errorLog { return newErrorLog(slog.Default, time.Minute, &defaultLines) }

func newErrorLog(log func() *slog.Logger, interval time.Duration, budget *lineBudget) *errorLog {
	return &errorLog{log: log, interval: interval, budget: budget, limiters: map[limiterID]*limiterLog{}}
}

// errorLog is the Observer of LogErrors.
type errorLog struct {
	log      func() *slog.Logger
	interval time.Duration
	budget   *lineBudget // nil if there is none

	outages atomic.Int32 // outages of limiters that have not ended

	mu       sync.Mutex // guards limiters and what they hold
	limiters map[limiterID]*limiterLog
}

// maxLoggedLimiters is the most limiters and rules that have lines of their own.
const maxLoggedLimiters = 256

// limiterID names a limiter and its rule.
type limiterID struct{ name, rule string }

// limiterLog holds the lines that were written about one limiter.
type limiterLog struct {
	lines  [outcomes]lastLine
	outage outage
}

// lastLine is the last line about one outcome.
type lastLine struct {
	at     time.Time // zero if there is none
	silent int       // requests since then that were not written about
}

// hears reports whether Observe does anything about a decision. It is all that an
// undisturbed decision costs.
func (o *errorLog) hears(d *Decision) bool { return d.Err != nil || o.outages.Load() > 0 }

// Observe implements [Observer].
func (o *errorLog) Observe(ctx context.Context, e Event) {
	if t := troubleOf(&e); troubles[t] != "" {
		o.writeTrouble(ctx, &e, t)
	} else if e.Decision.Err == nil && e.Decision.Source == SourceCounted && o.outages.Load() > 0 {
		o.storeAnswered(ctx, &e)
	}
}

// writeTrouble writes an event with the outcome t, or counts it if a line has been written lately.
func (o *errorLog) writeTrouble(ctx context.Context, e *Event, t Outcome) {
	now := time.Now()
	o.mu.Lock()
	l := o.of(limiterID{e.Name, e.Rule})
	if isOutage(t) && l.outage.note(now) {
		o.outages.Add(1)
		clear(l.lines[OutcomeFallbackAdmitted : OutcomeFallbackFailed+1]) // each outage has a line
	}
	last := &l.lines[t]
	if !last.at.IsZero() && now.Sub(last.at) < o.interval || !o.budget.take(now, o.log()) {
		last.silent++
		o.mu.Unlock()
		return
	}
	silent := last.silent
	*last = lastLine{at: now}
	began := now
	if isOutage(t) {
		began = l.outage.since
	}
	o.mu.Unlock()

	attrs := append(limiterAttrs(e), slog.String("error", loggedText(e.Decision.Err)),
		slog.String("remedy", remedyFor(t, e.Decision.Err)))
	if e.Stage != StageUnknown {
		attrs = append(attrs, slog.String("stage", e.Stage.String()))
	}
	o.log().LogAttrs(ctx, slog.LevelWarn, troubles[t], told(attrs, slog.Bool("shadow", e.Shadow),
		slog.Int("more", silent), slog.Duration("since", now.Sub(began)))...)
}

// limiterAttrs returns what names the limiter in a line, and the route if it is known.
func limiterAttrs(e *Event) []slog.Attr {
	return told([]slog.Attr{slog.String("limiter", e.Name)},
		slog.String("rule", e.Rule), slog.String("route", printable(e.Label, maxLoggedError)))
}

// told appends those of more that are not zero.
func told(attrs []slog.Attr, more ...slog.Attr) []slog.Attr {
	for _, a := range more {
		if !reflect.ValueOf(a.Value.Any()).IsZero() {
			attrs = append(attrs, a)
		}
	}
	return attrs
}

// of returns the lines of a limiter. o.mu must be held.
func (o *errorLog) of(id limiterID) *limiterLog {
	if o.limiters[id] == nil && len(o.limiters) >= maxLoggedLimiters {
		id = limiterID{}
	}
	l := o.limiters[id]
	if l == nil {
		l = new(limiterLog)
		o.limiters[id] = l
	}
	return l
}

// Notice implements [NoticeObserver].
func (o *errorLog) Notice(ctx context.Context, n Notice) {
	if o.budget.take(time.Now(), o.log()) {
		o.log().LogAttrs(ctx, slog.LevelWarn, "sash: "+n.Text,
			slog.String("code", n.Code), slog.String("limiter", n.Name), slog.String("rule", n.Rule))
	}
}
