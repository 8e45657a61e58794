package redisstore

import (
	"cmp"
	"slices"
	"time"
)

// Stats is what a [Store] says about itself: what this process knows and has done. The
// numbers of type uint64 are counted since the store was made and never decrease; the
// others are as of now, unless they say otherwise.
type Stats struct {
	Breakers []Breaker // one for each server, by address

	// Requests that wait for the same server are sent to it together, in batches; a
	// request that finds no company is a batch of one. Requests that have to be sent by
	// themselves are in no batch: while a breaker is not closed, for example.
	// BatchedRequests / Batches is the mean size.
	Batches         uint64 // batches that were sent
	BatchedRequests uint64 // requests in them
	LargestBatch    uint64 // requests in the largest one so far

	Scripts   uint64 // scripts given to the Redis client to send, with repetitions and those that try a connection
	NoScripts uint64 // replies NOSCRIPT: the server did not know the script and was sent its source

	Refusals          int64  // refusals that are remembered, of at most 32,768; some may have ended
	RefusedFromMemory uint64 // requests and peeks that were answered by one

	Leases       int64 // leases with units to spend, of at most 16,384; see WithLease
	UnspentUnits int64 // units that they have left
}

// idleAfter is how long a node of a cluster or a ring has been failing without a trial
// when it is no longer told of: it has probably been replaced.
const idleAfter = time.Minute

// Stats returns what this process knows of the servers and has sent to them. It does
// not ask Redis. It takes some microseconds, with thousands of leases up to a
// millisecond, and may be asked every second; no decision waits for it but for
// microseconds. It is safe for concurrent use; the numbers are of slightly different
// times. A store that was not made has zero Stats.
//
// A master of a cluster, or a shard of a ring, has a breaker from the first request
// that is sent to it. One that has been failing and that no request has tried for a
// minute is left out until one does. What is known of a server is forgotten when the
// client has had 256 others.
func (s *Store) Stats() Stats {
	if s == nil || s.client.rdb == nil {
		return Stats{}
	}
	e := &s.client.events
	stats := Stats{
		Breakers:        s.client.breakers(time.Now()),
		Batches:         e.batches.Load(),
		BatchedRequests: e.batched.Load(),
		LargestBatch:    e.largest.Load(),
		Scripts:         e.scripts.Load(),
		NoScripts:       e.noScripts.Load(),
	}
	stats.Refusals, stats.RefusedFromMemory = s.refusals.Stats()
	if s.leases != nil {
		stats.Leases, stats.UnspentUnits = s.leases.Unspent(time.Now())
	}
	return stats
}

// breakers returns the breakers of all servers, by address. Of several clients that
// go-redis has made for one address, the latest counts.
func (c *client) breakers(now time.Time) []Breaker {
	latest := map[string]*breaker{}
	c.nodes.mu.Lock()
	for _, known := range c.nodes.byClient {
		b := known.breaker
		addr := b.status.Load().Server
		if other := latest[addr]; other == nil || other.made.Before(b.made) {
			latest[addr] = b
		}
	}
	c.nodes.mu.Unlock()
	all := []Breaker{*c.first.breaker.status.Load()}
	for _, b := range latest {
		status := *b.status.Load()
		if status.State == StateClosed || now.Sub(status.Changed) <= idleAfter {
			all = append(all, status)
		}
	}
	slices.SortStableFunc(all, func(a, b Breaker) int { return cmp.Compare(a.Server, b.Server) })
	return all
}
