package core

import (
	"context"
	"log/slog"
	"time"

	"github.com/sashlimit/sash/core/internal/eventlog"
)

// LogRefusals returns an Observer that writes to log which clients the limits refuse: the client, the limit, the
// number of refusals, the first and the last time, and when the client may come back. It stands beside [LogErrors]:
//
//	Observer: core.Observers(core.LogErrors(log, time.Minute), core.LogRefusals(log, time.Minute))
//
// The first refusal of a client is written at once; later ones are counted, and written when the
// interval, of 1 ms at least, is over: one line for each limiter and rule, and one with shadow=true
// for limits in their shadow. Keys are cut to 96 bytes and escaped. 100 clients have lines of their own
// at a time; all others have one line in an interval, which counts them.
func LogRefusals(log *slog.Logger, interval time.Duration) Observer {
	if err := checkLog("LogRefusals", log, interval, false); err != nil {
		return invalidObserver{err: err}
	}
	return &refusalLog{eventlog.NewRefusals(log, interval)}
}

// refusalLog is the Observer of LogRefusals.
type refusalLog struct{ refusals *eventlog.Refusals }

// Observe implements [Observer].
func (o *refusalLog) Observe(ctx context.Context, e Event) {
	d := &e.Decision
	if d.Allowed || d.Limit.Requests == 0 || e.Peek {
		return // no limit has refused it
	}
	o.refusals.Add(ctx, eventlog.Refusal{
		Source: e.source(), Key: e.Key, Limit: d.Limit, RetryAfter: d.RetryAfter, Shadow: e.Shadow,
	})
}
