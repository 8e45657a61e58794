package core

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sashlimit/sash/core/internal/eventlog"
	"github.com/sashlimit/sash/internal/notice"
)

// timedShare is the number of decisions of a store that never waits for each whose
// time is measured: to read the clock twice takes about as long as such a decision.
const timedShare = 16

// sampleTime returns the time now if the duration of the decision is measured, else the zero Time.
func (l *Limiter) sampleTime() (start time.Time) {
	if !l.observed || !l.waits && rand.Uint32()%timedShare != 0 {
		return start
	}
	return time.Now()
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

// Notice tells the observer of the limiter, if it is a [NoticeObserver], what middleware or a store
// has seen: each code once for l and its copies by WithPolicy and WithLimits, whatever the text is, and
// no code of Config.Quiet. What a client sends must not be part of the code.
func (l *Limiter) Notice(ctx context.Context, code, text string) {
	if l.notices == nil || slices.Contains(l.config.Quiet, code) {
		return
	}
	if _, known := l.shared.noticed.LoadOrStore(code, nil); !known {
		text = eventlog.Escape(text, eventlog.MaxNotice)
		l.notices.Notice(ctx, Notice{Code: code, Name: l.config.Name, Rule: l.rule, Text: text})
	}
}

// largeLog is the size of a log in bytes for which a CoarseLog is proposed.
const largeLog = 1_000_000

// begin says, at the first decision of the limiter, what is wrong with how it was made. A
// log that a program sets at its start has been set by then.
func (l *Limiter) begin(ctx context.Context) {
	if l.begun.Swap(true) {
		return
	}
	for _, limit := range l.limits {
		bytes := limit.Requests * limit.Algorithm.properties().unitBytes
		if bytes > largeLog {
			l.Notice(ctx, notice.LargeLog, fmt.Sprintf("limit %q keeps a log of up to %d requests for each client, "+
				"at least %.1f MB: use %v.Using(core.CoarseLog), which never admits more either, in some 600 bytes",
				limit.Name, limit.Requests, float64(bytes)/1e6, limit.code()))
			return
		}
	}
}
