package core

import (
	"context"
	"log/slog"
	"time"
)

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
	said     bool      // whether a line says that the store fails

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
// outage, a line says so, unless no line has said that it fails.
func (o *errorLog) storeAnswered(ctx context.Context, e *Event) {
	now := time.Now()
	o.mu.Lock()
	out := &o.of(limiterID{e.Name, e.Rule}).outage
	if out.since.IsZero() {
		o.mu.Unlock()
		return
	}
	if out.backAt.IsZero() {
		out.backAt = now
	}
	if now.Sub(out.latest) < out.calm {
		o.mu.Unlock()
		return
	}
	over := *out
	*out = outage{calm: over.calm, ended: now}
	o.outages.Add(-1)
	o.mu.Unlock()
	if over.said && o.budget.take(now, o.log()) {
		o.log().LogAttrs(ctx, slog.LevelInfo, "sash: the store answers again", append(limiterAttrs(e),
			slog.Duration("outage", over.backAt.Sub(over.since)), slog.Int("decided_by_policy", over.requests))...)
	}
}
