package eventlog

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/internal/errs"
)

const (
	// maxSources is the maximum number of limiters and rules with lines of their own. All others share theirs.
	maxSources = 256

	// quietPeriod is the time without a failure after which an outage is over: a store that fails now and then has
	// not recovered in between.
	quietPeriod = time.Minute
)

// Problem is a request that no limit has decided.
type Problem struct {
	Source
	Kind   uint8  // the problems of one kind share lines
	Outage bool   // the store failed
	Text   string // the message of the line
	Err    error
	Hint   string
	Stage  string // may be empty
	Shadow bool
}

// Problems writes a line about a problem once in an interval for each limiter, rule and kind, and a line when an outage
// is over. It is safe for concurrent use.
type Problems struct {
	Outages atomic.Int32 // number of sources with an outage; while it is 0, Recover does nothing

	log      func() *slog.Logger
	interval time.Duration

	mu      sync.Mutex // guards sources and their histories
	sources map[Source]*history
}

// history holds what was written about one source.
type history struct {
	lines  map[uint8]line // the latest line of each kind
	outage outage
}

type line struct {
	written time.Time
	skipped int // problems since then, without a line
	outage  bool
}

// outage is the time in which a store fails requests.
type outage struct {
	first, latest time.Time // failures
	requests      int       // 0: there is no outage
}

// NewProblems returns a log that asks for its logger at each line. An interval of 0 writes each problem.
func NewProblems(log func() *slog.Logger, interval time.Duration) *Problems {
	return &Problems{log: log, interval: interval, sources: map[Source]*history{}}
}

// Add writes a line about a problem, or counts it for the next line.
func (p *Problems) Add(ctx context.Context, problem *Problem) {
	now := time.Now()
	start := now
	p.mu.Lock()
	h := p.history(problem.Source)
	if problem.Outage {
		if h.outage.requests == 0 {
			h.outage.first = now
			p.Outages.Add(1)
		}
		h.outage.latest = now
		h.outage.requests++
		start = h.outage.first
	}
	last := h.lines[problem.Kind]
	if now.Sub(last.written) < p.interval {
		last.skipped++
		h.lines[problem.Kind] = last
		p.mu.Unlock()
		return
	}
	h.lines[problem.Kind] = line{written: now, outage: problem.Outage}
	p.mu.Unlock()

	text := strings.TrimPrefix(errs.Text(problem.Err), "the store failed: ") // the message says it
	attrs := append(problem.attrs(), slog.String("error", Escape(text, maxText)),
		slog.String("hint", Escape(problem.Hint, MaxNotice)))
	p.log().LogAttrs(ctx, slog.LevelWarn, problem.Text, appendNonZero(attrs, slog.String("stage", problem.Stage),
		slog.Bool("shadow", problem.Shadow), slog.Int("more", last.skipped), slog.Duration("since", now.Sub(start)))...)
}

// Recover notes that the store has answered. If that ends an outage, a line says so.
func (p *Problems) Recover(ctx context.Context, s Source) {
	now := time.Now()
	p.mu.Lock()
	h := p.history(s)
	over := h.outage
	if over.requests == 0 || now.Sub(over.latest) < quietPeriod {
		p.mu.Unlock()
		return
	}
	h.outage = outage{}
	maps.DeleteFunc(h.lines, func(_ uint8, l line) bool { return l.outage }) // the next outage has a line at once
	p.Outages.Add(-1)
	p.mu.Unlock()
	p.log().LogAttrs(ctx, slog.LevelInfo, "sash: the store answers again", append(s.attrs(),
		slog.Duration("outage", over.latest.Sub(over.first)), slog.Int("decided_by_policy", over.requests))...)
}

// Notice writes a notice, which is bounded by its author.
func (p *Problems) Notice(ctx context.Context, s Source, code, text string) {
	p.log().LogAttrs(ctx, slog.LevelWarn, "sash: "+text, append(s.attrs(), slog.String("code", code))...)
}

// history returns the history of a source. p.mu must be held.
func (p *Problems) history(s Source) *history {
	id := s.withoutRoute()
	if p.sources[id] == nil && len(p.sources) >= maxSources {
		id = Source{}
	}
	h := p.sources[id]
	if h == nil {
		h = &history{lines: map[uint8]line{}}
		p.sources[id] = h
	}
	return h
}
