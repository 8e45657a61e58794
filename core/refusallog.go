package core

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// LogRefusals returns an Observer that writes to log whom the limits refuse: the client, the limit, how
// often, the first and the last time, and when the client may come back. It stands beside [LogErrors]:
//
//	Observer: core.Observers(core.LogErrors(log, time.Minute), core.LogRefusals(log, time.Minute))
//
// The first refusal of a client is written at once; later ones are counted, and written when the
// interval, of 1 ms at least, is over: one line for each limiter and rule, and one with shadow=true
// for limits in their shadow. Keys are cut to 96 bytes and escaped. 100 clients are told apart at a
// time; all others have one line in an interval, which counts them.
func LogRefusals(log *slog.Logger, interval time.Duration) Observer {
	if err := checkLogger("LogRefusals", log); err != nil {
		return wrongObserver{err: err}
	}
	if interval < minLogInterval {
		return wrongObserver{err: fmt.Errorf("sash: core.LogRefusals(..., %v): give at least %v, such as time.Minute",
			interval, minLogInterval)}
	}
	return &refusalLog{log: log, interval: interval, seed: maphash.MakeSeed(), clients: map[refusedID]*refusals{}}
}

const (
	maxRefusedClients = 100 // with lines of their own
	maxLoggedKey      = 96  // bytes
)

// refusalLog is the Observer of LogRefusals. A timer calls flush while clients is not empty.
type refusalLog struct {
	log      *slog.Logger
	interval time.Duration
	seed     maphash.Seed

	mu      sync.Mutex // guards clients and what it holds
	clients map[refusedID]*refusals
}

// refusedID names a client of a rule. The zero one stands for all clients that are not told apart.
type refusedID struct {
	limiterID
	client uint64 // the hash of the key
	shadow bool
}

// refusals are those of a client that no line has told yet.
type refusals struct {
	line        time.Time // when the last line was written
	count       int
	first, last time.Time
	latest      Event  // without its Key and Decision.Err
	client      string // the Key as a line has it; empty for clients that are not told apart
}

// Observe implements [Observer].
func (o *refusalLog) Observe(ctx context.Context, e Event) {
	d := &e.Decision
	if d.Allowed || d.Limit.Requests == 0 || e.Peek {
		return // no limit has refused it
	}
	now := time.Now()
	id := refusedID{limiterID{e.Name, e.Rule}, maphash.String(o.seed, e.Key), e.Shadow}
	o.mu.Lock()
	r, known := o.clients[id]
	if !known && len(o.clients) >= maxRefusedClients {
		id = refusedID{}
		r, known = o.clients[id]
	}
	if !known {
		if len(o.clients) == 0 {
			time.AfterFunc(o.interval, o.flush)
		}
		r = &refusals{line: now}
		if id != (refusedID{}) {
			r.client = strings.Clone(printable(e.Key, maxLoggedKey))
		}
		o.clients[id] = r
	}
	if r.count++; r.count == 1 {
		r.first = now
	}
	r.last, r.latest = now, e
	r.latest.Key, r.latest.Decision.Err = "", nil // they may be long
	told := *r
	if !known {
		r.count = 0
	}
	o.mu.Unlock()
	if !known {
		o.write(ctx, &told)
	}
}

// flush writes the lines that are due, and forgets the clients that have not been refused since their last line.
func (o *refusalLog) flush() {
	now := time.Now()
	var due []refusals
	o.mu.Lock()
	next := o.interval
	for id, r := range o.clients {
		wait := o.interval - now.Sub(r.line)
		switch {
		case wait > 0:
			next = min(next, wait)
		case r.count == 0:
			delete(o.clients, id)
		default:
			due = append(due, *r)
			r.line, r.count = now, 0
		}
	}
	if len(o.clients) > 0 {
		time.AfterFunc(next, o.flush)
	}
	o.mu.Unlock()
	slices.SortFunc(due, func(a, b refusals) int { return cmp.Compare(a.first.UnixNano(), b.first.UnixNano()) })
	for i := range due {
		o.write(context.Background(), &due[i])
	}
}

// write writes a line.
func (o *refusalLog) write(ctx context.Context, r *refusals) {
	often := []slog.Attr{slog.Int("refused", r.count), slog.Time("first", r.first), slog.Time("last", r.last)}
	if r.client == "" {
		o.log.LogAttrs(ctx, slog.LevelInfo, "sash: clients beyond the 100 that are told apart were refused", often...)
		return
	}
	wait := "never"
	if after := r.latest.Decision.RetryAfter; after != Never {
		wait = (time.Duration(math.Ceil(after.Seconds())) * time.Second).String()
	}
	attrs := append(limiterAttrs(&r.latest), slog.String("client", r.client),
		slog.String("limit", r.latest.Decision.Limit.String()))
	attrs = append(append(attrs, often...), slog.String("retry_after", wait))
	o.log.LogAttrs(ctx, slog.LevelInfo, "sash: a client was refused",
		told(attrs, slog.Bool("shadow", r.latest.Shadow))...)
}
