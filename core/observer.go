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

// Notice tells an operator of something to mend.
type Notice struct {
	Code string // such as "large-log"; docs/diagnosis.md says of each what it means and what to do
	Name string // Config.Name
	Rule string // the rule's name, empty for the limiter itself
	Text string // what was seen, and what to do instead; escaped as in Go, and cut after 1,000 bytes
}

// checkQuiet returns an error if a code of Config.Quiet is none of this module.
func checkQuiet(codes []string) error {
	for _, code := range codes {
		if !slices.Contains(notice.Codes, code) {
			return fmt.Errorf("sash: Config.Quiet has the code %.66q: give some of %s",
				code, strings.Join(notice.Codes, ", "))
		}
	}
	return nil
}

// NoticeObserver is an [Observer] that takes notices too, of any goroutine.
type NoticeObserver interface {
	Observer
	Notice(ctx context.Context, n Notice)
}
