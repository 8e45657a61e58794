package core

import "context"

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
}

// ObserverFunc makes a function an [Observer].
type ObserverFunc func(ctx context.Context, e Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }
