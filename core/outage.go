package core

import (
	"context"
	"log/slog"
	"time"
)

// calm is the time without a failed request after which an outage has ended: a store that
// fails now and then has not recovered in between (TestLogOfFlapping).
const calm = time.Minute

// outage is the time in which a limiter's store fails requests.
type outage struct {
	since    time.Time // zero if there is no outage
	latest   time.Time // the last failure
	backAt   time.Time // the first answer of the store after that; zero if there is none
	requests int       // decided without the store
}

// note notes that the store has failed a request, and reports whether the outage begins.
func (o *outage) note(now time.Time) (begins bool) {
	if begins = o.since.IsZero(); begins {
		o.since = now
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
	if out.since.IsZero() || now.Sub(out.latest) < calm {
		o.mu.Unlock()
		return
	}
	over := *out
	*out = outage{}
	o.outages.Add(-1)
	o.mu.Unlock()
	if o.budget.take(now, o.log()) {
		o.log().LogAttrs(ctx, slog.LevelInfo, "sash: the store answers again", append(limiterAttrs(e),
			slog.Duration("outage", over.backAt.Sub(over.since)), slog.Int("decided_by_policy", over.requests))...)
	}
}
