package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/internal/errs"
)

// LogErrors returns an Observer that writes to log, as warnings, why limits are not enforced: the store
// fails, requests have no key, a function of the key or of the limits fails, or calls are malformed. A
// line says what happens to the requests, why, and what to do. Notices are written too, keys are not.
//
// Each problem is written once in an interval for each limiter and rule, with the number of requests
// since; an interval of 0 writes each, and else it is at least 1 ms. An outage has a line when it
// starts, and one when the store has failed no request for a minute.
//
// A limiter without an observer has LogErrors(slog.Default(), time.Minute).
func LogErrors(log *slog.Logger, interval time.Duration) Observer {
	if err := checkLog("LogErrors", log, interval, true); err != nil {
		return invalidObserver{err: err}
	}
	return newErrorLog(func() *slog.Logger { return log }, interval)
}

// minLogInterval is the least interval of a log. Less is a number without a unit, such as 60.
const minLogInterval = time.Millisecond

// checkLog returns an error if an observer cannot write to log, or has an interval that is too short.
func checkLog(observer string, log *slog.Logger, interval time.Duration, allowZero bool) error {
	switch {
	case log == nil || log.Handler() == nil:
		return fmt.Errorf("sash: core.%s has no logger, or one without a handler: give one, such as slog.Default()",
			observer)
	case interval < minLogInterval && !(allowZero && interval == 0):
		return fmt.Errorf("sash: core.%s(..., %v): give at least %v, such as time.Minute",
			observer, interval, minLogInterval)
	}
	return nil
}

// errorLog is the Observer of LogErrors.
type errorLog struct {
	outages atomic.Int32 // number of rules with an outage

	log      func() *slog.Logger // called for each line
	interval time.Duration

	mu      sync.Mutex // guards sources
	sources map[ruleName]*problemHistory
}

const (
	// maxSources is the maximum number of rules with lines of their own. All others share theirs.
	maxSources = 256

	// quietPeriod is the time without a failure after which an outage is over: a store that fails now and then has
	// not recovered in between.
	quietPeriod = time.Minute
)

type problemLine struct {
	written time.Time
	skipped int // later problems without a line
}

// problemHistory holds the latest lines about the problems of a rule, and its outage.
type problemHistory struct {
	lines         [numOutcomes]problemLine
	first, latest time.Time // failures in the outage
	failures      int       // 0 if there is no outage
}

func newErrorLog(log func() *slog.Logger, interval time.Duration) *errorLog {
	return &errorLog{log: log, interval: interval, sources: map[ruleName]*problemHistory{}}
}

// Observe implements [Observer].
func (o *errorLog) Observe(ctx context.Context, e Event) {
	outcome := e.enforcedOutcome()
	switch {
	case outcome != OutcomeKeyFailed && errors.Is(e.Decision.Err, ErrLimits):
		outcome = OutcomeLimitsFailed
	case outcome == OutcomeFallbackRefused:
		outcome = OutcomeFallbackAdmitted // they share a line
	}
	switch {
	case problems[outcome].text != "":
		o.addProblem(ctx, &e, outcome)
	case e.Decision.Err == nil && e.Decision.Source == SourceCounted && o.outages.Load() > 0:
		o.endOutage(ctx, &e)
	}
}

// addProblem writes a line about a problem, or counts it for the next line.
func (o *errorLog) addProblem(ctx context.Context, e *Event, outcome Outcome) {
	problem, now := &problems[outcome], time.Now()
	start, hint := now, problem.hint
	o.mu.Lock()
	h := o.history(e)
	if hint == "" { // an outage
		hint = cmp.Or(errs.HintOf(e.Decision.Err), storeHint)
		if h.failures == 0 {
			h.first = now
			o.outages.Add(1)
		}
		h.failures++
		start, h.latest = h.first, now
	}
	line := &h.lines[outcome]
	if now.Sub(line.written) < o.interval {
		line.skipped++
		o.mu.Unlock()
		return
	}
	skipped := line.skipped
	line.written, line.skipped = now, 0
	o.mu.Unlock()

	text := strings.TrimPrefix(errs.Text(e.Decision.Err), "the store failed: ") // the message says it
	attrs := append(e.logAttrs(), slog.String("error", escape(text, maxLogText)),
		slog.String("hint", escape(hint, maxNotice)))
	if e.Stage != StageUnknown {
		attrs = append(attrs, slog.String("stage", e.Stage.String()))
	}
	o.log().LogAttrs(ctx, slog.LevelWarn, "sash: "+problem.text, appendNonZero(attrs,
		slog.Bool("shadow", e.Shadow), slog.Int("more", skipped), slog.Duration("since", now.Sub(start)))...)
}

// endOutage writes a line if a quiet period of the store has ended an outage.
func (o *errorLog) endOutage(ctx context.Context, e *Event) {
	o.mu.Lock()
	h := o.history(e)
	ended := *h
	if ended.failures == 0 || time.Since(ended.latest) < quietPeriod {
		o.mu.Unlock()
		return
	}
	h.failures = 0
	for outcome := range h.lines {
		if problems[outcome].hint == "" {
			h.lines[outcome] = problemLine{} // the next outage has a line at once
		}
	}
	o.outages.Add(-1)
	o.mu.Unlock()
	o.log().LogAttrs(ctx, slog.LevelInfo, "sash: the store answers again", append(e.logAttrs(),
		slog.Duration("outage", ended.latest.Sub(ended.first)), slog.Int("decided_by_policy", ended.failures))...)
}

// history returns the history of the event's rule. o.mu must be held.
func (o *errorLog) history(e *Event) *problemHistory {
	id := ruleName{e.Name, e.Rule}
	if o.sources[id] == nil && len(o.sources) >= maxSources {
		id = ruleName{}
	}
	h := o.sources[id]
	if h == nil {
		h = &problemHistory{}
		o.sources[id] = h
	}
	return h
}

// Notice implements [NoticeObserver]. The text of a notice is bounded by its limiter.
func (o *errorLog) Notice(ctx context.Context, n Notice) {
	e := Event{Name: n.Name, Rule: n.Rule}
	o.log().LogAttrs(ctx, slog.LevelWarn, "sash: "+n.Text, append(e.logAttrs(), slog.String("code", n.Code))...)
}

// problems holds the message and the hint of each outcome that LogErrors writes about. An outage has no hint here: its
// error has one.
var problems = [numOutcomes]struct{ text, hint string }{
	OutcomeFailedOpen:       {"the store fails: requests are served, uncounted", ""},
	OutcomeFailedClosed:     {"the store fails: requests are refused", ""},
	OutcomeFallbackAdmitted: {"the store fails: the fallback decides", ""},
	OutcomeFallbackFailed:   {"both the store and its fallback fail: requests are refused", ""},
	OutcomeNoKey: {"requests without a key are refused",
		"is the limit behind the authentication, or whatever sets what its key function reads? " +
			"To limit requests without a key by address, use keyfuncs.First with keyfuncs.RemoteIP at the end; " +
			"an ambiguous key, such as of a header that came twice, is refused there too"},
	OutcomeKeyFailed: {"the key function fails: requests are refused",
		"the error is that of the key function: can what it asks be reached, " +
			"and is the limit behind the authentication that it relies on?"},
	OutcomeLimitsFailed: {"the limits of requests are unknown: the policy decides",
		"the error is that of the function of WithLimits, WithLimiter or WithCost: can what it asks be reached, " +
			"and may a limit have its numbers?"},
	OutcomeInvalid: {"malformed requests are refused",
		"give each client a key, costs of 0 or more, and a limiter with limits"},
}

// storeHint is the hint about an error of a store that has none.
const storeHint = "is the store up, and are the address, the password, TLS and the number of the database right? " +
	"Is the network open, and Config.Timeout several round trips? The Check of a redisstore tells more"
