package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/internal/errs"
)

// LogErrors returns an Observer that writes to log, as warnings, why limits are not enforced:
// the store cannot be asked, requests name no client, a key function or that of the limits
// fails, or calls are malformed. A line says what happens to the requests meanwhile, why, and
// what to do. [Notice]s are written too, keys are not.
//
// Each trouble is written once in an interval for each limiter and rule, with the number of
// requests since; an interval of 0 writes each, and else it is at least 1 ms. An outage of the
// store is written when it begins and when it has ended: the store has failed no request for
// a second, or for up to a minute where outages follow each other.
//
// A limiter without an observer has LogErrors(slog.Default(), time.Minute), and all of them
// together write at most 100 lines a minute.
func LogErrors(log *slog.Logger, interval time.Duration) Observer {
	switch {
	case log == nil:
		return wrongObserver{err: errors.New("sash: core.LogErrors(nil, ...): give a logger, such as slog.Default()")}
	case log.Handler() == nil:
		return wrongObserver{err: errors.New("sash: the logger of core.LogErrors has no handler: " +
			"make it with slog.New, or give slog.Default()")}
	case interval != 0 && interval < minLogInterval:
		return wrongObserver{err: fmt.Errorf("sash: core.LogErrors(..., %v): give 0 or at least %v, such as time.Minute",
			interval, minLogInterval)}
	}
	return newErrorLog(func() *slog.Logger { return log }, interval, nil)
}

// minLogInterval is the least interval of a log. Less is a number without a unit, such as 60.
const minLogInterval = time.Millisecond

// defaultErrorLog returns the observer of a limiter without one.
func defaultErrorLog() *errorLog { return newErrorLog(slog.Default, time.Minute, &defaultLines) }

// defaultLines bounds the lines of all default logs: a program that makes a limiter for
// each request makes as many logs.
var defaultLines lineBudget

func newErrorLog(log func() *slog.Logger, interval time.Duration, budget *lineBudget) *errorLog {
	return &errorLog{log: log, interval: interval, budget: budget, limiters: map[limiterID]*limiterLog{}}
}

// errorLog is the Observer of LogErrors.
type errorLog struct {
	log      func() *slog.Logger
	interval time.Duration
	budget   *lineBudget // nil if there is none

	outages atomic.Int32 // of the limiters, those that have not ended

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
	o.log().LogAttrs(ctx, slog.LevelWarn, troubles[t], told(attrs, slog.Int("status", e.Status),
		slog.Bool("shadow", e.Shadow), slog.Int("more", silent), slog.Duration("since", now.Sub(began)))...)
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

// lineBudget bounds the lines that several observers write to one log, to a number per minute. If
// they go on with another log, it begins anew. A nil one has no bound.
type lineBudget struct {
	mu    sync.Mutex // guards the fields below
	log   *slog.Logger
	since time.Time
	used  int
}

// maxDefaultLines is the most lines of all default logs in a minute.
const maxDefaultLines = 100

// take reports whether a line may be written to log now, and counts it.
func (b *lineBudget) take(now time.Time, log *slog.Logger) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if passed := now.Sub(b.since); log != b.log || passed < 0 || passed >= time.Minute {
		b.log, b.since, b.used = log, now, 0
	}
	b.used++
	return b.used <= maxDefaultLines
}

// A store must have failed no request for leastCalm before it is said to answer again: a
// store that fails now and then has not recovered in between. With each outage that begins
// within mostCalm of the last, that time doubles, up to mostCalm: so the log stays short,
// though each outage has its lines (TestLogOfFlapping).
const (
	leastCalm = time.Second
	mostCalm  = time.Minute
)

// outage is the time in which a limiter's store fails requests.
type outage struct {
	since    time.Time // zero if there is no outage
	latest   time.Time // the last failure
	backAt   time.Time // the first answer of the store after that; zero if there is none
	requests int       // decided without the store

	calm  time.Duration // for how long the store must fail no request
	ended time.Time     // the outage before; zero if there was none
}

// note notes that the store has failed a request, and reports whether the outage begins.
func (o *outage) note(now time.Time) (begins bool) {
	if begins = o.since.IsZero(); begins {
		calm := leastCalm
		if now.Sub(o.ended) < mostCalm {
			calm = min(2*o.calm, mostCalm)
		}
		*o = outage{since: now, calm: calm}
	}
	o.latest, o.backAt = now, time.Time{}
	o.requests++
	return begins
}

// storeAnswered notes that the store has answered a request. If it has recovered from an
// outage, a line says so.
func (o *errorLog) storeAnswered(ctx context.Context, e *Event) {
	now := time.Now()
	o.mu.Lock()
	out := &o.of(limiterID{e.Name, e.Rule}).outage
	if out.backAt.IsZero() {
		out.backAt = now
	}
	if out.since.IsZero() || now.Sub(out.latest) < out.calm {
		o.mu.Unlock()
		return
	}
	over := *out
	*out = outage{calm: over.calm, ended: now}
	o.outages.Add(-1)
	o.mu.Unlock()
	if o.budget.take(now, o.log()) {
		o.log().LogAttrs(ctx, slog.LevelInfo, "sash: the store answers again", append(limiterAttrs(e),
			slog.Duration("outage", over.backAt.Sub(over.since)), slog.Int("decided_by_policy", over.requests))...)
	}
}

// troubles are the outcomes that LogErrors writes about, by what happens to the requests. A
// refusal by a fallback has the line of an admission.
var troubles = [outcomes]string{
	OutcomeFailedOpen:       "sash: the store cannot be asked: requests are served, uncounted",
	OutcomeFailedClosed:     "sash: the store cannot be asked: requests are refused",
	OutcomeFallbackAdmitted: "sash: the store cannot be asked: the fallback decides",
	OutcomeFallbackFailed:   "sash: neither the store nor its fallback can be asked: requests are refused",
	OutcomeNameless:         "sash: requests that name no client are refused",
	OutcomeKeyFailed:        "sash: the key function fails: requests are refused",
	OutcomeLimitsFailed:     "sash: the limits of requests cannot be found out: the requests are refused",
	OutcomeInvalid:          "sash: malformed requests are refused",
}

// troubleOf returns the outcome of an event as a log has it: without Shadow, which is told
// beside it.
func troubleOf(e *Event) Outcome {
	if o := e.decided(); o != OutcomeFallbackRefused {
		return o
	}
	return OutcomeFallbackAdmitted
}

// isOutage reports whether an outcome of troubleOf is one of a store that fails.
func isOutage(o Outcome) bool { return o >= OutcomeFallbackAdmitted && o <= OutcomeFallbackFailed }

// remedyFor returns what to do about an event with an outcome.
func remedyFor(o Outcome, err error) string {
	switch o {
	case OutcomeNameless:
		return "is the limit behind the authentication, or whatever sets what its key function reads? " +
			"To limit requests without a name by address, use keyfuncs.First with keyfuncs.RemoteIP at the end; " +
			"what names a client ambiguously, such as a header that came twice, is refused there too"
	case OutcomeKeyFailed:
		return "the error is that of the key function: can what it asks be reached, " +
			"and is the limit behind the authentication that it relies on?"
	case OutcomeLimitsFailed:
		return "the error is that of the function of WithLimits or WithLimiter: can what it asks be reached?"
	case OutcomeInvalid:
		return "give each client a key, costs of 0 or more, and limits that differ from the rule's in Requests alone"
	}
	return printable(remedyOf(err), maxNotice)
}

// The most bytes of texts that others write, in a log.
const (
	maxLoggedError = 500
	maxNotice      = 1000
)

// loggedText returns the text of an error for a line of which the message says that the
// store could not be asked.
func loggedText(err error) string {
	return printable(strings.TrimPrefix(errs.Text(err), errs.Text(ErrStore)+": "), maxLoggedError)
}

// printable returns text for a log: at most so many bytes of it, and escaped as in Go
// what cannot be printed. Handlers of slog put it in quotes where it needs them.
func printable(text string, most int) string {
	rest := ""
	if len(text) > most {
		text, rest = text[:most], "..."
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`) + rest
}
