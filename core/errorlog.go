package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sashlimit/sash/core/internal/eventlog"
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
	case log == nil:
		return fmt.Errorf("sash: core.%s(nil, ...): give a logger, such as slog.Default()", observer)
	case log.Handler() == nil:
		return fmt.Errorf("sash: the logger of core.%s has no handler: make it with slog.New, or give slog.Default()",
			observer)
	case interval < minLogInterval && !(allowZero && interval == 0):
		return fmt.Errorf("sash: core.%s(..., %v): give at least %v, such as time.Minute", observer, interval, minLogInterval)
	}
	return nil
}

// errorLog is the Observer of LogErrors.
type errorLog struct{ problems *eventlog.Problems }

func newErrorLog(log func() *slog.Logger, interval time.Duration) *errorLog {
	return &errorLog{eventlog.NewProblems(log, interval)}
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
	problem := &problems[outcome]
	switch {
	case problem.text != "":
		hint := problem.hint
		if hint == "" {
			hint = hintOf(e.Decision.Err)
		}
		stage := ""
		if e.Stage != StageUnknown {
			stage = e.Stage.String()
		}
		o.problems.Add(ctx, &eventlog.Problem{
			Source: e.source(), Kind: uint8(outcome), Outage: problem.hint == "", Text: "sash: " + problem.text,
			Err: e.Decision.Err, Hint: hint, Stage: stage, Shadow: e.Shadow,
		})
	case e.Decision.Err == nil && e.Decision.Source == SourceCounted && o.problems.Outages.Load() > 0:
		o.problems.Recover(ctx, e.source())
	}
}

// Notice implements [NoticeObserver].
func (o *errorLog) Notice(ctx context.Context, n Notice) {
	o.problems.Notice(ctx, eventlog.Source{Limiter: n.Name, Rule: n.Rule}, n.Code, n.Text)
}

// source returns the names of the event for a log.
func (e *Event) source() eventlog.Source {
	return eventlog.Source{Limiter: e.Name, Rule: e.Rule, Route: e.Label}
}

// problems are the outcomes that LogErrors writes about: what happens to the requests, and what to do. Those without
// a hint are outages, whose error has one.
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

// hintOf returns what an operator can do about an error of a store: what its method Hint
// says, or where to look.
func hintOf(err error) string {
	if known := errs.HintOf(err); known != "" {
		return known
	}
	if errors.Is(err, ErrStoreFull) {
		return "give the store more memory, or the rule fewer limits"
	}
	return "is the store up, and are the address, the password, TLS and the number of the database right? Is the " +
		"network open, and Config.Timeout several round trips? The Check of a redisstore tells more"
}
