package sashadmin

import (
	"context"
	"encoding/json"
	"hash/maphash"
	"sync"
	"time"

	"github.com/sashlimit/sash/core"
)

// Refusals is a core.Observer that stores the refusals of the last hour, for Config.Refusals. The zero value is ready
// for use. It is safe for concurrent use. It holds 10,000 rows, one for each minute of a client and a rule, in some 3
// MB, or 6 MB after millions of clients, and drops the oldest first. The answer gives the time since which it is
// complete.
type Refusals struct {
	mu     sync.Mutex // guards the fields below
	seed   maphash.Seed
	rows   []refusal          // a ring: the oldest is at next once there are maxRows
	next   int                // index of the next row
	newest map[refusalKey]int // index of the latest row
	first  time.Time          // time of the first refusal
	lost   time.Time          // end of the latest row dropped within the hour
}

const (
	maxRows     = 10_000
	retention   = time.Hour
	rowDuration = time.Minute
)

// refusalKey is a client, by its hash, under a rule.
type refusalKey struct {
	ruleID
	key    uint64
	shadow bool
}

// refusal holds the refusals of a client under a rule within a minute of the clock, in this process.
type refusal struct {
	Limiter    string     `json:"limiter"`
	Rule       string     `json:"rule"`
	Limit      core.Limit `json:"limit"`
	Refused    int        `json:"refused"` // number of refusals
	First      time.Time  `json:"first"`
	Last       time.Time  `json:"last"`
	RetryAfter retryAfter `json:"retry_after_seconds"` // of the last one; null if it can never pass
	Shadow     bool       `json:"shadow"`              // the requests were admitted

	id refusalKey
}

// retryAfter is a RetryAfter, which may be core.Never.
type retryAfter time.Duration

func (r retryAfter) MarshalJSON() ([]byte, error) {
	if time.Duration(r) == core.Never {
		return []byte("null"), nil
	}
	return json.Marshal(time.Duration(r).Seconds())
}

// Observe implements core.Observer.
func (r *Refusals) Observe(_ context.Context, e core.Event) {
	d := &e.Decision
	if d.Allowed || d.Limit.Requests == 0 || e.Peek {
		return // not refused by a limit
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now().UTC()
	if r.newest == nil {
		r.seed, r.newest, r.first = maphash.MakeSeed(), map[refusalKey]int{}, now
	}
	id := refusalKey{ruleID{e.Name, e.Rule}, maphash.String(r.seed, e.Key), e.Shadow}
	i, known := r.newest[id]
	if !known || !now.Truncate(rowDuration).Equal(r.rows[i].First.Truncate(rowDuration)) {
		i = r.add(refusal{Limiter: e.Name, Rule: e.Rule, First: now, Shadow: e.Shadow, id: id}, now)
	}
	row := &r.rows[i]
	row.Refused++
	row.Last, row.Limit, row.RetryAfter = now, d.Limit, retryAfter(d.RetryAfter)
}

// add adds a row and returns its index. It replaces the oldest if there are maxRows.
func (r *Refusals) add(row refusal, now time.Time) (i int) {
	i = r.next
	r.next = (i + 1) % maxRows
	if i == len(r.rows) {
		r.rows = append(r.rows, row)
	}
	old := r.rows[i]
	if r.newest[old.id] == i {
		delete(r.newest, old.id)
	}
	if now.Sub(old.Last) < retention && old.Refused > 0 {
		r.lost = old.Last
	}
	r.rows[i] = row
	r.newest[row.id] = i
	return i
}

// refusalHistory holds the refusals of a client within the last hour in order of time.
type refusalHistory struct {
	Since   time.Time `json:"since"` // time since which Minutes is complete
	Minutes []refusal `json:"minutes"`
}

// forClient returns the refusals of a client since at most start, the time of New. It returns nil if r is nil.
func (r *Refusals) forClient(key string, start time.Time) *refusalHistory {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var hash uint64
	if len(r.rows) > 0 {
		hash = maphash.String(r.seed, key)
	}
	since, first := time.Now().UTC().Add(-retention), start.UTC()
	if len(r.rows) > 0 && r.first.Before(first) {
		first = r.first
	}
	for _, t := range []time.Time{first, r.lost} {
		if t.After(since) {
			since = t
		}
	}
	found := &refusalHistory{Minutes: []refusal{}}
	for i := range r.rows { // by First
		row := &r.rows[(r.next+i)%len(r.rows)]
		switch {
		case row.id.key != hash:
		case !row.First.Before(since):
			found.Minutes = append(found.Minutes, *row)
		case row.Last.After(since): // it started earlier
			since = row.Last
		}
	}
	found.Since = since
	return found
}
