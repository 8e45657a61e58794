package core

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sashlimit/sash/internal/notice"
)

// sampleInterval is the number of decisions of an Immediate store per measured one: two readings of the clock take
// about as long as such a decision.
const sampleInterval = 16

// sampleTime returns the time now if the duration of the decision is measured, else the zero Time.
func (l *Limiter) sampleTime() (start time.Time) {
	if !l.observed || !l.mayWait && rand.Uint32()%sampleInterval != 0 {
		return start
	}
	return time.Now()
}

// Report passes a decision to the observer: one that middleware has made without the limiter, such as the refusal of a
// request without a key, or one that was kept from the observer, see Request.Silent.
func (l *Limiter) Report(ctx context.Context, r Request, d Decision) { l.report(ctx, &r, &d, 0) }

// Observed reports whether an observer other than [LogErrors] gets every decision. If not, middleware
// need not look up a Label.
func (l *Limiter) Observed() bool { return l.observed }

// report passes a decision to the observer, if it wants it.
func (l *Limiter) report(ctx context.Context, r *Request, d *Decision, elapsed time.Duration) {
	if !l.wantsEvent(d) {
		return
	}
	e := Event{
		Name: l.config.Name, Rule: l.rule, Label: r.Label, Key: r.Key, Cost: r.Cost, Peek: r.Peek,
		Decision: *d, Shadow: r.Shadow, Elapsed: elapsed,
	}
	if d.Err != nil {
		e.Stage = StageOf(d.Err)
	}
	l.config.Observer.Observe(ctx, e)
}

// wantsEvent reports whether the observer uses a decision.
func (l *Limiter) wantsEvent(d *Decision) bool {
	return l.observed || l.log != nil && (d.Err != nil || l.log.outages.Load() > 0)
}

// Notice passes a finding of middleware or a store to the observer, if that is a [NoticeObserver]: each
// code once for l and its copies by WithPolicy and WithLimits, with the first text, and no code of
// Config.Quiet. The code must not contain input of clients.
func (l *Limiter) Notice(ctx context.Context, code, text string) {
	o, ok := l.config.Observer.(NoticeObserver)
	if !ok || slices.Contains(l.config.Quiet, code) {
		return
	}
	if _, known := l.noticeCodes.LoadOrStore(code, nil); !known {
		o.Notice(ctx, Notice{Code: code, Name: l.config.Name, Rule: l.rule, Text: escape(text, maxNotice)})
	}
}

// largeLog is the size of a log in bytes for which a CoarseLog is proposed.
const largeLog = 1_000_000

// noticeLargeLog sends a notice about a log that takes much memory.
func (l *Limiter) noticeLargeLog() {
	for _, limit := range l.limits {
		bytes := limit.Requests * limit.Algorithm.properties().unitBytes
		if bytes > largeLog {
			l.Notice(context.Background(), notice.LargeLog, fmt.Sprintf("limit %q keeps a log of up to %d requests "+
				"for each client, at least %.1f MB: use %v.Using(core.CoarseLog), which never admits more either, "+
				"in some 600 bytes", limit.Name, limit.Requests, float64(bytes)/1e6, limit.goCode()))
		}
	}
}
