package regions

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/errs"
)

// Stats are the statistics of a [Store]: the regions as this process sees them.
type Stats struct {
	Regions []Region // by name

	Clients int // busy clients that are looked at, at most Config.MaxClients; 0 if strict
	Overdue int // of these, clients that have waited for a look for so long that their share decides
}

// Region is a region as this process sees it.
type Region struct {
	Name   string
	Here   bool      // it is the region of this process
	Latest time.Time // the latest answer to a look, or strict to a decision; zero if there was none

	// SilentSince is the time at which the region stopped answering; zero unless that is more than 2 s ago.
	SilentSince time.Time

	Spilled uint64 // requests of this process that this other region has admitted; 0 unless strict
}

// Stats returns the statistics. It asks no region. It may be called every second, and is safe for concurrent use.
func (s *Store) Stats() Stats {
	var stats Stats
	if s == nil {
		return stats
	}
	now := s.now()
	for i, r := range s.regions {
		region := Region{Name: r.name, Here: i == s.here, Spilled: r.spilled.Load()}
		if latest := r.latest.Load(); latest > 0 {
			region.Latest = s.epoch.Add(time.Duration(latest))
		}
		if r.silent(now) {
			region.SilentSince = s.epoch.Add(time.Duration(r.failing.Load()))
		}
		stats.Regions = append(stats.Regions, region)
	}
	if s.table != nil {
		stats.Clients, stats.Overdue = s.table.count(now)
	}
	return stats
}

// region is a region as this process sees it. It is safe for concurrent use.
type region struct {
	name  string
	store core.Store

	failing atomic.Int64 // when the first question without an answer was sent, since the epoch; 0: the last was answered
	probing atomic.Bool  // a question is under way to see whether a silent region is back
	latest  atomic.Int64 // when the latest answer came, since the epoch; 0: none has
	spilled atomic.Uint64
}

// silent reports whether the region has not answered for 2 s.
func (r *region) silent(now time.Duration) bool {
	since := time.Duration(r.failing.Load())
	return since > 0 && now-since > silence
}

// answers reports whether the region has answered its latest question, or was asked none.
func (r *region) answers() bool { return r.failing.Load() == 0 }

// failed returns an error of the region, with its name.
func (r *region) failed(err error) error {
	return &errs.Error{Prefix: fmt.Sprintf("region %q: ", r.name), Err: err}
}

// answered notes an answer or a failure. A failure says nothing if the region has answered since it was asked.
func (r *region) answered(err error, sent, came time.Duration) {
	if err != nil {
		if int64(sent) >= r.latest.Load() {
			r.failing.CompareAndSwap(0, int64(sent))
		}
		return
	}
	r.failing.Store(0)
	r.latest.Store(int64(came))
}

// clock holds by how much the clock of a region's store is ahead of the time since the epoch. It is safe for concurrent
// use.
type clock struct{ ahead atomic.Int64 }

// read notes that the clock has shown a time while a question was under way. It changes ahead by no more than it must,
// so that a reply that was long under way does not spoil it.
func (c *clock) read(shown, asked, came time.Duration) {
	ahead := time.Duration(c.ahead.Load())
	if now := min(max(ahead, shown-came), shown-asked); now != ahead {
		c.ahead.Store(int64(now))
	}
}
