package core

import (
	"fmt"
)

// Maximum Requests of a [Limit].
const (
	MaxLogRequests     = 1_000_000 // for SlidingLog
	MaxCounterRequests = 1 << 40   // for SlidingCounter, CoarseLog and Bucket
)

// Algorithm says how a [Limit] counts. CanLease and IsLinear panic if it is unknown.
type Algorithm uint8

const (
	// SlidingLog keeps every admitted request and is exact: no interval of the window's length, wherever it starts,
	// holds more than Requests admitted units. Memory grows with the requests, up to [MaxLogRequests].
	SlidingLog Algorithm = iota

	// SlidingCounter keeps two numbers per key: the counts of the current and of the previous window, windows being
	// aligned to the Unix epoch. With e elapsed of the current window W it admits n more when
	//
	//	floor(previous * ((W-e)/W)) + current + n <= Requests
	//
	// It is an estimate: it supposes that the previous window's requests were spread evenly. A client that sends all of
	// them at its end can be admitted up to 2*Requests times within one real window. It suits large limits and constant
	// memory per key; a SlidingLog suits logins, billed quotas and small limits.
	SlidingCounter

	// CoarseLog is a log by slots of a sixtieth of the Window, aligned to the Unix epoch. A unit counts until the end
	// of its slot is a Window old. So no window ever holds more than Requests, as with a SlidingLog, and quota is back
	// up to a sixtieth of it later. A key takes a few hundred bytes. Prefer it to both where a limit is large and must
	// hold.
	CoarseLog

	// Bucket lets bursts pass, and refills evenly; see [RateAndBurst]. It is full with Requests units; each
	// request takes its cost, and it refills from nothing in a Window. In any stretch of length t it admits at most
	// Requests + Requests*t/Window units: so up to 2*Requests in a Window. A key takes as little memory as by a
	// SlidingCounter. It suits clients that begin with a burst, and callers that want an even flow; a contract says a
	// window. Each request pays by its own numbers, Window/Requests of time for a unit, also after
	// they change: over the requests of any stretch, the sum of cost*Window/Requests is at most its length
	// and the longest Window. So the Window is no part of a count's identity.
	Bucket
)

// properties describes an algorithm to the limiter. The stores count by it.
type properties struct {
	name        string // returned by String
	constant    string // the identifier in Go
	maxRequests int64  // of a Limit
	refill      refill // how units come back
	unitBytes   int64  // bytes of a memstore for each unit; 0 if the size does not depend on the units
}

// refill is the time at which the units of an admission come back.
type refill uint8

const (
	refillUnknown refill = iota // does not follow from a Decision
	refillByUnit                // each unit a Window after its request, so none before ResetAfter
	refillLinear                // a unit in each Window/Requests
)

// algorithms are the properties of all algorithms. A new algorithm takes a line here, and a file in each of these
// directories, which registers itself. No other code depends on the name of an algorithm:
//
//   - in memory: internal/window, a .go file
//   - in Redis: redisstore/internal/script, a .go and a .lua file
//   - in the definition that the stores are tested against: internal/model/statespace, a .go file
//
// The example store of storetest refuses other algorithms.
//
// The tests of core, of its stores and of storetest go through all algorithms, and the errors of limittext.go name
// them. Texts for people name them one by one: the doc comments of Decision and Ledger, the README and
// docs/choosing.md, which a test holds to that.
var algorithms = [...]properties{
	SlidingLog:     {"log", "SlidingLog", MaxLogRequests, refillByUnit, 9},
	SlidingCounter: {"counter", "SlidingCounter", MaxCounterRequests, refillUnknown, 0},
	CoarseLog:      {"coarse", "CoarseLog", MaxCounterRequests, refillByUnit, 0},
	Bucket:         {"bucket", "Bucket", MaxCounterRequests, refillLinear, 0},
}

// Algorithms returns all algorithms. A store counts by each of them.
func Algorithms() []Algorithm {
	all := make([]Algorithm, len(algorithms))
	for i := range all {
		all[i] = Algorithm(i)
	}
	return all
}

// String returns "log", "counter", "coarse" or "bucket".
func (a Algorithm) String() string {
	if a.isKnown() {
		return algorithms[a].name
	}
	return fmt.Sprintf("Algorithm(%d)", uint8(a))
}

// CanLease reports whether each unit counts for a Window after its request, so that none comes back before
// ResetAfter, and units may be leased.
func (a Algorithm) CanLease() bool { return a.properties().refill == refillByUnit }

// IsLinear reports whether a unit comes back in each Window/Requests. The Window is no part of the identity of such a
// count.
func (a Algorithm) IsLinear() bool { return a.properties().refill == refillLinear }

// isKnown reports whether there is such an algorithm.
func (a Algorithm) isKnown() bool { return int(a) < len(algorithms) }

// properties returns the properties of a known algorithm.
func (a Algorithm) properties() properties {
	if !a.isKnown() {
		panic("sash: unknown algorithm: " + a.String())
	}
	return algorithms[a]
}
