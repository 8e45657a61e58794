package sashadmin

import (
	"context"
	"encoding/json"
	"hash/maphash"
	"sync"
	"time"

	"github.com/sashlimit/sash/core"
)

// Refusals is a core.Observer that remembers for an hour whom the limits have refused, for Config.Refusals. The zero
// value is ready. It is safe for concurrent use. It keeps 10,000 rows, one for each minute of a client and a rule, in
// some 3 MB, or 6 MB after millions of clients. The oldest go first. The answer says from when on all are there, and
// has none from before.
type Refusals struct {
	mu     sync.Mutex // guards the fields below
	seed   maphash.Seed
	rows   []refusal       // a ring: the oldest is at next once there are maxRows
	next   int             // where the next row goes
	newest map[refused]int // the row of the latest minute
	first  time.Time       // of all refusals
	lost   time.Time       // the last moment of the rows that went too early
}

const (
	maxRows  = 10_000
	kept     = time.Hour
	rowLasts = time.Minute
)

// refused is a client of a rule, whose key has this hash.
type refused struct {
	ruleID
	key    uint64
	shadow bool
}

// refusal holds the refusals of a client by a rule within a minute of the clock, as this process has seen them.
type refusal struct {
	Limiter    string     `json:"limiter"`
	Rule       string     `json:"rule"`
	Limit      core.Limit `json:"limit"`
	Refused    int        `json:"refused"` // how often
	First      time.Time  `json:"first"`
	Last       time.Time  `json:"last"`
	RetryAfter retryAfter `json:"retry_after_seconds"` // of the last one; null if it can never pass
	Shadow     bool       `json:"shadow"`              // the requests went on

	id refused
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
		return // no limit has refused it
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now().UTC()
	if r.newest == nil {
		r.seed, r.newest, r.first = maphash.MakeSeed(), map[refused]int{}, now
	}
	id := refused{ruleID{e.Name, e.Rule}, maphash.String(r.seed, e.Key), e.Shadow}
	i, known := r.newest[id]
	if !known || !now.Truncate(rowLasts).Equal(r.rows[i].First.Truncate(rowLasts)) {
		i = r.add(refusal{Limiter: e.Name, Rule: e.Rule, First: now, Shadow: e.Shadow, id: id}, now)
	}
	row := &r.rows[i]
	row.Refused++
	row.Last, row.Limit, row.RetryAfter = now, d.Limit, retryAfter(d.RetryAfter)
}

// add adds a row, in the place of the oldest if there are maxRows, and returns its index.
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
	if now.Sub(old.Last) < kept && old.Refused > 0 {
		r.lost = old.Last
	}
	r.rows[i] = row
	r.newest[row.id] = i
	return i
}

// lately holds the refusals of a client within the last hour, the first one first.
type lately struct {
	Since   time.Time `json:"since"` // from then on all are there, and none from before
	Minutes []refusal `json:"minutes"`
}

// of returns the refusals of a client, or nil if r is. The handler is there since began.
func (r *Refusals) of(key string, began time.Time) *lately {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var hash uint64
	if len(r.rows) > 0 {
		hash = maphash.String(r.seed, key)
	}
	since, first := time.Now().UTC().Add(-kept), began.UTC()
	if len(r.rows) > 0 && r.first.Before(first) {
		first = r.first
	}
	for _, t := range []time.Time{first, r.lost} {
		if t.After(since) {
			since = t
		}
	}
	found := &lately{Minutes: []refusal{}}
	for i := range r.rows { // by First
		row := &r.rows[(r.next+i)%len(r.rows)]
		switch {
		case row.id.key != hash:
		case !row.First.Before(since):
			found.Minutes = append(found.Minutes, *row)
		case row.Last.After(since): // it has some from before
			since = row.Last
		}
	}
	found.Since = since
	return found
}
