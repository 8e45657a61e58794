package core

import (
	"context"
	"hash/maphash"
	"log/slog"
	"math"
	"strings"
	"sync"
	"time"
)

// maxLogClients is the maximum number of clients with lines of their own.
const maxLogClients = 100

// LogRefusals returns an Observer that writes to log which clients the limits refuse: the client, the limit, the
// number of refusals, the first and the last time, and when the client may come back. Use it beside [LogErrors]:
//
//	Observer: core.Observers(core.LogErrors(log, time.Minute), core.LogRefusals(log, time.Minute))
//
// The first refusal of a client is written at once. Later ones are counted, and written when the
// interval, of 1 ms at least, is over: one line for each limiter and rule, and one with shadow=true
// for limits in their shadow. Keys are cut to 96 bytes and escaped. 100 clients have lines of their own
// at a time; all others share one line in an interval, with their count.
func LogRefusals(log *slog.Logger, interval time.Duration) Observer {
	if err := checkLog("LogRefusals", log, interval, false); err != nil {
		return invalidObserver{err: err}
	}
	return &refusalLog{log: log, interval: interval, seed: maphash.MakeSeed(), clients: map[logClient]*refusals{}}
}

// refusalLog is the Observer of LogRefusals.
type refusalLog struct {
	log      *slog.Logger
	interval time.Duration
	seed     maphash.Seed

	mu      sync.Mutex // guards clients; each has a timer that calls flush
	clients map[logClient]*refusals
}

// logClient identifies a client of a rule. The zero value stands for all clients beyond maxLogClients.
type logClient struct {
	ruleName
	key    uint64 // a hash
	shadow bool
}

// refusals counts the refusals of a client since its last line.
type refusals struct {
	count       int
	first, last time.Time
	latest      Event // its Key is as written, and empty beyond maxLogClients
}

// Observe implements [Observer].
func (o *refusalLog) Observe(ctx context.Context, e Event) {
	if e.Decision.Allowed || e.Decision.Limit.Requests == 0 || e.Peek {
		return // no limit has refused it
	}
	now := time.Now()
	id := logClient{ruleName{e.Name, e.Rule}, maphash.String(o.seed, e.Key), e.Shadow}
	o.mu.Lock()
	c := o.clients[id]
	if c == nil && len(o.clients) >= maxLogClients {
		id = logClient{}
		c = o.clients[id]
	}
	if c == nil {
		c = &refusals{}
		defer o.flush(ctx, id) // after the Unlock
		if id != (logClient{}) {
			c.latest.Key = strings.Clone(escape(e.Key, maxLogKey))
		}
		o.clients[id] = c
	}
	if c.count == 0 {
		c.first = now
	}
	c.count++
	e.Key = c.latest.Key
	c.last, c.latest = now, e
	o.mu.Unlock()
}

// flush writes a line about the refusals of a client, now and after each interval, until there are none.
func (o *refusalLog) flush(ctx context.Context, id logClient) {
	o.mu.Lock()
	c := o.clients[id]
	r := *c
	c.count = 0
	if r.count == 0 {
		delete(o.clients, id)
		o.mu.Unlock()
		return
	}
	time.AfterFunc(o.interval, func() { o.flush(context.Background(), id) })
	o.mu.Unlock()
	counts := []slog.Attr{slog.Int("refused", r.count), slog.Time("first", r.first), slog.Time("last", r.last)}
	if id == (logClient{}) {
		o.log.LogAttrs(ctx, slog.LevelInfo, "sash: clients beyond the 100 that have lines were refused", counts...)
		return
	}
	wait := "never"
	if after := r.latest.Decision.RetryAfter; after != Never {
		wait = (time.Duration(math.Ceil(after.Seconds())) * time.Second).String()
	}
	attrs := append(r.latest.logAttrs(), slog.String("client", r.latest.Key),
		slog.String("limit", r.latest.Decision.Limit.String()))
	attrs = append(append(attrs, counts...), slog.String("retry_after", wait))
	o.log.LogAttrs(ctx, slog.LevelInfo, "sash: a client was refused",
		appendNonZero(attrs, slog.Bool("shadow", r.latest.Shadow))...)
}
