package core

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// maxNamedClients is the most clients that LogRefusals follows at a time.
	maxNamedClients = 100

	// maxNewlyNamed is the most clients that LogRefusals names in an interval.
	maxNewlyNamed = 20
)

// LogRefusals returns an [Observer] that writes to log which clients are over a limit: a
// line when a client begins to be refused, and one when it stops, with how many of its
// requests were refused. A client stops when an interval has passed without a refusal.
// Peeks do not count, nor do requests that the policy refuses.
//
// It names at most 20 clients in an interval, and follows at most 100 at a time, which
// takes less than 64 KB. Refusals of other clients are counted together in one line at
// the end of the interval. So an interval has at most 20 lines of clients that begin,
// 100 of clients that stop, and one for the others. Keys are cut after 64 bytes, and
// escaped as in Go.
//
// An admitted request costs a comparison; a refused one takes a lock. A timer, and no
// goroutine, waits for the end of the interval while clients are refused. LogRefusals
// panics if log is nil or has no handler, or if the interval is less than 1 ms. It is to be
// joined with what else observes:
//
//	core.Observers(core.LogErrors(log, time.Minute), core.LogRefusals(log, time.Minute))
func LogRefusals(log *slog.Logger, interval time.Duration) Observer {
	checkLogger("core.LogRefusals", log)
	if interval < minLogInterval {
		panic(fmt.Sprintf("sash: core.LogRefusals(..., %v): give at least %v, such as time.Minute",
			interval, minLogInterval))
	}
	return &refusalLog{
		log: log, interval: interval, seed: maphash.MakeSeed(), clients: map[refusedID]*refusedClient{},
	}
}

// refusalLog is the Observer of LogRefusals.
type refusalLog struct {
	log      *slog.Logger
	interval time.Duration
	seed     maphash.Seed

	mu      sync.Mutex // guards the fields below
	clients map[refusedID]*refusedClient
	begun   time.Time // the interval; zero if no client is refused
	named   int       // clients that have been named in the interval
	others  int       // refusals in the interval of clients that are not followed
}

// refusedID tells clients of a rule apart. A key may be long, so it is hashed.
type refusedID struct {
	limiterID
	key uint64
}

// refusedClient is a client that is being refused.
type refusedClient struct {
	limiterID
	key           string // for the log
	since, latest time.Time
	refused       int
}

// Observe implements [Observer].
func (o *refusalLog) Observe(ctx context.Context, e Event) {
	d := &e.Decision
	if d.Allowed || e.Peek || d.Source == Unasked || d.Source == FromPolicy {
		return
	}
	id := refusedID{limiterID{e.Name, e.Rule}, maphash.String(o.seed, e.Key)}
	now := time.Now()
	o.mu.Lock()
	if o.begun.IsZero() {
		o.begun = now
		time.AfterFunc(o.interval, o.endInterval)
	}
	c := o.clients[id]
	begins := c == nil && o.named < maxNewlyNamed && len(o.clients) < maxNamedClients
	if begins {
		c = &refusedClient{limiterID: id.limiterID, key: printable(e.Key, maxLoggedKey), since: now}
		o.clients[id] = c
		o.named++
	}
	if c != nil {
		c.latest = now
		c.refused++
	} else {
		o.others++
	}
	o.mu.Unlock()
	if begins {
		o.log.LogAttrs(ctx, slog.LevelInfo, "sash: a client is being refused", append(limiterAttrs(&e),
			slog.String("key", c.key), slog.String("limit", d.Limit.Name))...)
	}
}

// endInterval writes which clients have stopped, and begins another interval while any
// client is refused.
func (o *refusalLog) endInterval() {
	now := time.Now()
	var stopped []*refusedClient
	o.mu.Lock()
	for id, c := range o.clients {
		if now.Sub(c.latest) >= o.interval {
			stopped = append(stopped, c)
			delete(o.clients, id)
		}
	}
	others := o.others
	o.begun, o.named, o.others = time.Time{}, 0, 0
	if len(o.clients) > 0 {
		o.begun = now
		time.AfterFunc(o.interval, o.endInterval)
	}
	o.mu.Unlock()
	slices.SortFunc(stopped, func(a, b *refusedClient) int { return a.since.Compare(b.since) })
	for _, c := range stopped {
		o.log.LogAttrs(context.Background(), slog.LevelInfo, "sash: a client is no longer refused",
			append(limiterAttrs(&Event{Name: c.name, Rule: c.rule}), slog.String("key", c.key),
				slog.Int("refused", c.refused), slog.Duration("for", c.latest.Sub(c.since)))...)
	}
	if others > 0 {
		o.log.LogAttrs(context.Background(), slog.LevelInfo, "sash: other clients are refused too",
			slog.Int("refused", others), slog.Duration("in", o.interval))
	}
}
