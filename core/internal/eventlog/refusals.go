package eventlog

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math"
	"strings"
	"sync"
	"time"
)

// maxClients is the maximum number of clients with lines of their own.
const maxClients = 100

// Refusal is a request that a limit has refused.
type Refusal struct {
	Source
	Key        string
	Limit      fmt.Stringer
	RetryAfter time.Duration // math.MaxInt64: never
	Shadow     bool
}

// Refusals writes a line about the first refusal of each client, and one in an interval about those that follow. It is
// safe for concurrent use.
type Refusals struct {
	log      *slog.Logger
	interval time.Duration
	seed     maphash.Seed

	mu      sync.Mutex // guards clients; a timer calls flush while it is not empty
	clients map[client]*refusals
}

// client identifies the client of a rule. The zero client stands for all beyond maxClients.
type client struct {
	Source
	key    uint64 // a hash
	shadow bool
}

// refusals counts the refusals of a client since its last line.
type refusals struct {
	written     time.Time // the last line
	count       int
	first, last time.Time
	latest      Refusal // with its Key as a line has it; that is empty beyond maxClients
}

// NewRefusals returns a log with an interval above 0.
func NewRefusals(log *slog.Logger, interval time.Duration) *Refusals {
	return &Refusals{log: log, interval: interval, seed: maphash.MakeSeed(), clients: map[client]*refusals{}}
}

// Add writes a line about a refusal, or counts it for the next line.
func (l *Refusals) Add(ctx context.Context, r Refusal) {
	now := time.Now()
	id := client{r.withoutRoute(), maphash.String(l.seed, r.Key), r.Shadow}
	l.mu.Lock()
	c, known := l.clients[id]
	if !known && len(l.clients) >= maxClients {
		id = client{}
		c, known = l.clients[id]
	}
	if known {
		if c.count == 0 {
			c.first = now
		}
		c.count++
		r.Key = c.latest.Key
		c.last, c.latest = now, r
		l.mu.Unlock()
		return
	}
	if len(l.clients) == 0 {
		time.AfterFunc(l.interval, l.flush)
	}
	if r.Key = strings.Clone(Escape(r.Key, maxKey)); id == (client{}) {
		r.Key = ""
	}
	l.clients[id] = &refusals{written: now, latest: r}
	l.mu.Unlock()
	l.write(ctx, &refusals{count: 1, first: now, last: now, latest: r})
}

// flush writes the lines that are due, and forgets the clients without a refusal since their last line.
func (l *Refusals) flush() {
	now := time.Now()
	var due []refusals
	l.mu.Lock()
	next := l.interval
	for id, c := range l.clients {
		wait := l.interval - now.Sub(c.written)
		switch {
		case wait > 0:
			next = min(next, wait)
		case c.count == 0:
			delete(l.clients, id)
		default:
			due = append(due, *c)
			c.written, c.count = now, 0
		}
	}
	if len(l.clients) > 0 {
		time.AfterFunc(next, l.flush)
	}
	l.mu.Unlock()
	for i := range due {
		l.write(context.Background(), &due[i])
	}
}

// write writes a line about the refusals of a client.
func (l *Refusals) write(ctx context.Context, r *refusals) {
	counts := []slog.Attr{slog.Int("refused", r.count), slog.Time("first", r.first), slog.Time("last", r.last)}
	if r.latest.Key == "" {
		l.log.LogAttrs(ctx, slog.LevelInfo, "sash: clients beyond the 100 that have lines were refused", counts...)
		return
	}
	wait := "never"
	if after := r.latest.RetryAfter; after != math.MaxInt64 {
		wait = (time.Duration(math.Ceil(after.Seconds())) * time.Second).String()
	}
	attrs := append(r.latest.attrs(), slog.String("client", r.latest.Key), slog.String("limit", r.latest.Limit.String()))
	attrs = append(append(attrs, counts...), slog.String("retry_after", wait))
	l.log.LogAttrs(ctx, slog.LevelInfo, "sash: a client was refused",
		appendNonZero(attrs, slog.Bool("shadow", r.latest.Shadow))...)
}
