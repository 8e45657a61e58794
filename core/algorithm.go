package core

import (
	"fmt"
	"strings"

	"github.com/sashlimit/sash/core/internal/waitqueue"
)

// Algorithm says how a [Limit] counts. Steady and Even panic if it is unknown.
type Algorithm uint8

const (
	// SlidingLog remembers every admitted request and is exact: no interval of the window's length, wherever it starts,
	// holds more than Requests admitted units. Memory grows with the requests, of which [MaxLogRequests] are the most.
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

	// CoarseLog is a log by slots of a sixtieth of the Window, aligned to the Unix epoch. A unit counts until the end of
	// its slot is a Window old. So no window ever holds more than Requests, as with a SlidingLog, and quota is back up to
	// a sixtieth of it later. A key takes a few hundred bytes. Prefer it to both where a limit is large and must hold.
	CoarseLog

	// Bucket lets bursts pass, and refills evenly; see [RateAndBurst]. It is full with Requests units, of which each
	// request takes its cost, and refills from nothing in a Window. In any stretch of length t it admits at most
	// Requests + Requests*t/Window units: so up to 2*Requests in a Window. A key takes as little memory as by a
	// SlidingCounter. It suits clients that begin with a burst, and callers that want an even flow; a contract says a
	// window. What a charge owes comes back at the same pace, or faster so that it takes 100 Windows at most.
	Bucket
)

// properties holds the engine's knowledge of an algorithm. How it counts is the stores'
// business.
type properties struct {
	name        string // what String returns
	constant    string // what a program writes
	maxRequests int64  // the most that a Limit may allow
	steady      bool   // what Steady returns
	even        bool   // what Even returns
	unitBytes   int64  // what the store that needs least keeps for each unit, a memstore; 0 if for all together

	// admitted returns when the request after an admission can pass.
	admitted func(*Decision) *waitqueue.Estimate
}

// algorithms are the properties of all algorithms. Another algorithm takes a line here, and a file in each of these
// rooms, which adds itself; nothing else asks for one by name (TestRooms):
//
//   - in memory: internal/window, a .go file
//   - in Redis: redisstore/internal/script, a .go and a .lua file
//   - in the definition that the stores are tested against: internal/model/worlds, a .go file
//
// The example store of storetest refuses what it does not know.
//
// The tests of core, of its stores and of storetest go through all algorithms, and the errors of limittext.go name
// them. Texts for people name them one by one: the doc comments of Decision and Ledger, the README and
// docs/choosing.md, which a test holds to that.
var algorithms = [...]properties{
	SlidingLog:     {"log", "SlidingLog", MaxLogRequests, true, false, 9, admittedByLog},
	SlidingCounter: {"counter", "SlidingCounter", MaxCounterRequests, false, false, 0, admittedByCounter},
	CoarseLog:      {"coarse", "CoarseLog", MaxCounterRequests, true, false, 0, admittedByLog},
	Bucket:         {"bucket", "Bucket", MaxCounterRequests, false, true, 0, admittedByBucket},
}

// admittedByLog: nothing comes back before ResetAfter.
func admittedByLog(d *Decision) *waitqueue.Estimate {
	return &waitqueue.Estimate{After: d.ResetAfter, Cost: d.Remaining + 1}
}

// admittedByBucket: all Requests pass after ResetAfter, and each unit less Window/Requests earlier.
func admittedByBucket(d *Decision) *waitqueue.Estimate {
	l := &d.Limit
	return &waitqueue.Estimate{
		After: d.ResetAfter, Cost: l.Requests, PerUnit: float64(l.Window) / float64(l.Requests),
	}
}

// admittedByCounter: the two windows together do not tell when the next passes.
func admittedByCounter(*Decision) *waitqueue.Estimate { return &waitqueue.Estimate{} }

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
	if a.known() {
		return algorithms[a].name
	}
	return fmt.Sprintf("Algorithm(%d)", uint8(a))
}

// Steady reports whether each unit counts for a Window from its own time on: none leaves before
// ResetAfter is over, and units may be leased.
func (a Algorithm) Steady() bool { return a.properties().steady }

// Even reports whether units come back Window/Requests apart.
func (a Algorithm) Even() bool { return a.properties().even }

// known reports whether there is such an algorithm.
func (a Algorithm) known() bool { return int(a) < len(algorithms) }

// properties returns what is known of the algorithm, which must have been checked.
func (a Algorithm) properties() properties {
	if !a.known() {
		panic("sash: unknown algorithm: " + a.String())
	}
	return algorithms[a]
}

// check returns an error that says what is wrong with the algorithm of the limit, or
// with how many requests the limit allows by it.
func (a Algorithm) check(l Limit) error {
	if !a.known() {
		var constants []string
		for _, known := range algorithms {
			constants = append(constants, "core."+known.constant)
		}
		return fmt.Errorf("sash: limit %q has algorithm %d: use %s", l.Name, uint8(a), strings.Join(constants, " or "))
	}
	own := a.properties()
	if l.Requests <= own.maxRequests {
		return nil
	}
	tooMany := fmt.Sprintf("sash: limit %q allows %d requests: a %s holds at most %d",
		l.Name, l.Requests, own.constant, own.maxRequests)
	if own.maxRequests < MaxCounterRequests {
		return fmt.Errorf("%s; use %v.Using(core.CoarseLog), or core.SlidingCounter, which hold up to %d",
			tooMany, l.code(), int64(MaxCounterRequests))
	}
	return fmt.Errorf("%s (2^40)", tooMany)
}
