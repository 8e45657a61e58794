package core

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sashlimit/sash/internal/errs"
	"github.com/sashlimit/sash/internal/notice"
)

// Observer gets every decision, in the goroutine of the request, with its context, before the caller does. It must be
// quick and safe for concurrent use. A panic ends the request like one of a handler.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// Event is a decision for an [Observer].
type Event struct {
	Name     string // Config.Name
	Rule     string // the name given to [Limiter.Rule], or empty
	Label    string // Request.Label, such as the pattern of a route
	Key      string // the client: any bytes, so escape it in logs and keep it out of metric labels
	Cost     int64
	Peek     bool
	Decision Decision
	Shadow   bool  // Request.Shadow: the request goes on even if the decision is a refusal
	Stage    Stage // [StageOf] Decision.Err

	// Elapsed is the duration of the decision, waits for stores included. Where the store is [Immediate], it is
	// measured for one decision in 16, at random, and 0 for the others.
	Elapsed time.Duration
}

// ObserverFunc is a function as an [Observer].
type ObserverFunc func(ctx context.Context, e Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// Silent is an [Observer] that does nothing: the limiter does not log.
var Silent Observer = silentObserver{}

type silentObserver struct{}

// Observe does nothing.
func (silentObserver) Observe(context.Context, Event) {}

// Observers returns an [Observer] that passes every event to each of the observers, in order. Include
// LogErrors(slog.Default(), time.Minute) to keep the default log.
func Observers(observers ...Observer) Observer {
	for i, o := range observers {
		if errs.IsNil(o) {
			return invalidObserver{err: fmt.Errorf("sash: observer %d of core.Observers is %s: leave it out",
				i+1, errs.NilName(o))}
		}
		if wrong, ok := o.(invalidObserver); ok {
			return wrong
		}
	}
	return observerList(slices.Clone(observers))
}

// invalidObserver is an Observer that could not be made. New returns its error.
type invalidObserver struct {
	silentObserver
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

// Notice is a message to an operator about something to mend.
type Notice struct {
	Code string // such as "large-log"; docs/monitoring.md says of each what it means and what to do
	Name string // Config.Name
	Rule string // the name given to [Limiter.Rule], or empty
	Text string // the finding, and what to do; escaped as in Go, and cut after 1,000 bytes
}

// checkQuiet returns an error if a code of Config.Quiet is unknown.
func checkQuiet(codes []string) error {
	for _, code := range codes {
		if !slices.Contains(notice.Codes, code) {
			return fmt.Errorf("sash: Config.Quiet has the code %.66q: give some of %s",
				code, strings.Join(notice.Codes, ", "))
		}
	}
	return nil
}

// NoticeObserver is an [Observer] that also gets notices, from any goroutine.
type NoticeObserver interface {
	Observer
	Notice(ctx context.Context, n Notice)
}
