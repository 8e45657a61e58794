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

	Clients int // number of busy clients to poll for, at most Config.MaxClients; 0 if strict
	Overdue int // number of clients whose poll is more than 2 s overdue: they have the share of this region
}

// Region is a region as this process sees it.
type Region struct {
	Name   string
	Local  bool      // reports whether this process runs in the region
	Latest time.Time // time of the latest answer to a poll or, if strict, to a request; zero if there is none

	// SilentSince is the time of the first request without an answer; zero unless it is more than 2 s ago.
	SilentSince time.Time

	Spilled uint64 // requests of this process admitted by this other region; 0 unless strict
}

// Stats returns the statistics. It sends no request, so it is cheap enough for every second. It is safe for concurrent
// use.
func (s *Store) Stats() Stats {
	var stats Stats
	if s == nil {
		return stats
	}
	now := s.now()
	for i, r := range s.regions {
		region := Region{Name: r.name, Local: i == s.local, Spilled: r.spilled.Load()}
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

	failing atomic.Int64 // departure since the epoch of the first request without an answer; 0 if there is none
	probing atomic.Bool  // a probe of the silent region is in flight
	latest  atomic.Int64 // arrival of the latest answer since the epoch; 0 if there is none
	spilled atomic.Uint64
}

// silent reports whether the region has not answered for 2 s.
func (r *region) silent(now time.Duration) bool {
	since := time.Duration(r.failing.Load())
	return since > 0 && now-since > silentAfter
}

// isHealthy reports whether no request to the region lacks an answer.
func (r *region) isHealthy() bool { return r.failing.Load() == 0 }

// withName adds the region's name to its error.
func (r *region) withName(err error) error {
	return &errs.Error{Prefix: fmt.Sprintf("region %q: ", r.name), Err: err}
}

// recordAnswer records an answer or a failure. It ignores the failure of a request sent before the latest answer.
func (r *region) recordAnswer(err error, sent, received time.Duration) {
	if err != nil {
		if int64(sent) >= r.latest.Load() {
			r.failing.CompareAndSwap(0, int64(sent))
		}
		return
	}
	r.failing.Store(0)
	r.latest.Store(int64(received))
}

// clock holds the offset of a region store's clock from the time since the epoch. It is safe for concurrent use.
type clock struct{ ahead atomic.Int64 }

// read updates the offset by a reading of the clock between start and received. It changes the offset by the least
// possible, so that a slow reply does not spoil it.
func (c *clock) read(reading, start, received time.Duration) {
	ahead := time.Duration(c.ahead.Load())
	if now := min(max(ahead, reading-received), reading-start); now != ahead {
		c.ahead.Store(int64(now))
	}
}
