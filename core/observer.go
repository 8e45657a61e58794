package core

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// Observer hears of every decision: metrics and logs hang on it.
//
// Observe is called once per decision, in the goroutine of the request and
// before the caller has the answer. It must be quick and safe for concurrent
// use. ctx is the request's.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// Event is one decision as an [Observer] sees it.
type Event struct {
	Name     string // Config.Name
	Rule     string // the rule's name, empty for the limiter itself
	Label    string // Request.Label: in HTTP the route's pattern
	Key      string // the client; may be anything, so escape it in logs and keep it out of metric labels
	Cost     int64
	Peek     bool
	Decision Decision

	// Elapsed is how long the decision took: the wait for the store, and for the
	// fallback. The key function of an HTTP request is no part of it.
	Elapsed time.Duration

	// Stage is that of Decision.Err, and tells how far the request came; see [StageOf].
	Stage Stage

	// Status is 0 outside HTTP, and else the status that nethttp.Status gives for the
	// decision: 200 if the request goes on to its handler, else 429, 503, 400 or 500. A
	// custom refusal may send another one.
	Status int
}

// ObserverFunc makes a function an [Observer].
type ObserverFunc func(ctx context.Context, e Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// LogErrors returns an [Observer] that writes decisions with an Err to log, as
// warnings, and at most one in each interval: an outage is one line now and
// then, with how many more there were, and no flood. Malformed requests and
// callers that left are no outage and are not written; nor is what a [Fallback]
// refuses once the store answers again, since that has no Err. LogErrors
// panics if log is nil.
func LogErrors(log *slog.Logger, interval time.Duration) Observer {
	if log == nil {
		panic("sash: core.LogErrors(nil, ...): give a logger, such as slog.Default()")
	}
	return &errorLog{log: log, interval: interval}
}

// errorLog is the Observer of LogErrors.
type errorLog struct {
	log      *slog.Logger
	interval time.Duration

	mu     sync.Mutex // guards the fields below
	last   time.Time  // when the last error was logged
	silent int        // errors since last that were not logged
}

func (o *errorLog) Observe(ctx context.Context, e Event) {
	if e.Decision.Err == nil || !errors.Is(e.Decision.Err, ErrStore) {
		return
	}
	o.mu.Lock()
	now := time.Now()
	if !o.last.IsZero() && now.Sub(o.last) < o.interval {
		o.silent++
		o.mu.Unlock()
		return
	}
	silent := o.silent
	o.last, o.silent = now, 0
	o.mu.Unlock()
	o.log.WarnContext(ctx, "rate limit not counted", "limiter", e.Name, "rule", e.Rule,
		"allowed", e.Decision.Allowed, "error", e.Decision.Err, "more", silent)
}
