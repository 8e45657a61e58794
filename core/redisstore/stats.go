package redisstore

import "time"

// Stats has the numbers of a [Store]: of what this process knows and has done. The
// numbers of type uint64 are counted since the store was made and never decrease; the
// others are as of now, unless they say otherwise.
type Stats struct {
	Breakers []Breaker // one for each server, by address

	// Requests that wait for the same server are sent to it together, in batches; a lone
	// request is a batch of one. BatchRequests / Batches is the mean size.
	Batches       uint64 // batches that were sent
	BatchRequests uint64 // requests in them
	LargestBatch  uint64 // requests in the largest one so far

	Scripts   uint64 // scripts, and deletions of Reset, given to the Redis client to send, with repetitions
	NoScripts uint64 // replies NOSCRIPT: the server did not know the script and was sent its source

	Refusals          int64  // refusals that are remembered, of at most 32,768; some may have ended
	RefusedFromMemory uint64 // requests and peeks that were answered by one

	Leases       int64 // leases with units to spend, of at most 16,384; see WithLease
	UnspentUnits int64 // units that they have left
}

// Breaker is the state of the breaker of a server: whether decisions wait for the
// server.
type Breaker struct {
	// Server is the address, as the Redis client has it: "FailoverClient" behind
	// Sentinel. It is "" for the breaker of all servers that are not known: before the
	// map of a cluster has been loaded, for a ring without a shard, and always behind
	// a client of a program's own type.
	Server string

	State   State
	Changed time.Time // when the breaker entered the State; at first, when it was made

	FailingSince time.Time `json:",omitzero"` // when the breaker was closed last; zero while it is closed
	TripCount    uint64    // how often the breaker has opened after it was closed
}

// State is the state of a breaker: one of [StateClosed], [StateHalfOpen] and [StateOpen].
type State string

const (
	// StateClosed means that decisions wait for the server.
	StateClosed State = "closed"

	// StateHalfOpen means that a request is sent to try whether the server is back.
	// No decision waits for the server.
	StateHalfOpen State = "half-open"

	// StateOpen means that the server has been failing, and no decision waits for it.
	// The first request that comes 100 ms after the last failure, or later, tries the
	// server again; until one comes the breaker stays open.
	StateOpen State = "open"
)

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
	if s == nil || s.client == nil {
		return Stats{}
	}
	stats := Stats{
		Batches:       s.client.Batches.Load(),
		BatchRequests: s.client.Requests.Load(),
		LargestBatch:  s.client.LargestBatch.Load(),
		Scripts:       s.client.Scripts.Load(),
		NoScripts:     s.client.NoScripts.Load(),
	}
	for _, b := range s.client.Breakers(time.Now()) {
		stats.Breakers = append(stats.Breakers, Breaker{
			Server: b.Server, State: State(b.State),
			Changed: b.Changed, FailingSince: b.FailingSince, TripCount: b.TripCount,
		})
	}
	stats.Refusals, stats.RefusedFromMemory = s.refusals.Stats()
	if s.leases != nil {
		stats.Leases, stats.UnspentUnits = s.leases.Unspent(time.Now())
	}
	return stats
}
