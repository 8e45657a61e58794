package script

import (
	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// An algorithm has one file of Go, such as log.go, which describes its values, and one of Lua, such as log.lua, which
// writes them. No other code here knows an algorithm.
//
// Numbers are big-endian. A stamp is a time in microseconds modulo 2^48: the time nearest to TIME with this
// remainder.
//
// The part of the reply for a request (see decide.lua) is
//
//	F, the key that held a value which is not the store's, and a line feed
//	E, an error of Redis, and a line feed
//	A or R (admitted by all limits, or refused), and for each limit the facts by which it was judged, before counting
//
// The facts are - if nothing counts.

// algorithm is how an algorithm counts in Redis. Its own files alone know it.
type algorithm struct {
	letter string  // in keys
	steps  string  // its name in return.lua, and the first word of the names of its parts in Lua
	lua    *string // the file of these parts

	// read reads the facts with which s begins, which is not empty. It returns the rest of s; ok reports whether the
	// facts could be read.
	read func(s string, l window.Limit, now int64) (f facts, rest string, ok bool)

	// decide returns the verdict on a request at now, which is counted at stamp if it is admitted.
	decide func(f facts, l window.Limit, now, stamp, cost int64) window.Verdict
}

// algorithms is the table of algorithms. Each file registers its own.
var algorithms [16]*algorithm

// algorithmOf returns an entry of the table. It panics if the algorithm is unknown.
func algorithmOf(a core.Algorithm) *algorithm {
	if int(a) < len(algorithms) && algorithms[a] != nil {
		return algorithms[a]
	}
	panic("sash: unknown algorithm: " + a.String())
}

// facts are the numbers from Redis on which a limit decides.
type facts struct {
	newest int64    // the newest stamp: no later request is counted before that; 0 where nothing counts
	own    [3]int64 // the other numbers, in an order of the algorithm
}

// limitOf returns a limit as package window has it.
func limitOf(l core.Limit) window.Limit {
	return window.Limit{N: l.Requests, W: l.Window.Microseconds(), Algorithm: l.Algorithm}
}

// readFacts reads the facts of a limit at the start of s, as algorithm.read does.
func readFacts(s string, l core.Limit, now int64) (f facts, rest string, ok bool) {
	switch {
	case s == "":
		return f, "", false
	case s[0] == '-':
		return f, s[1:], true
	}
	return algorithmOf(l.Algorithm).read(s, limitOf(l), now)
}

// decide returns what the limit says to a request at now, which is counted at stamp if it is admitted or a charge. A
// charge is admitted whatever the limit.
func (f *facts) decide(l core.Limit, now, stamp, cost int64, charge bool) window.Verdict {
	limit := limitOf(l)
	limit.Unlimited = charge
	return algorithmOf(l.Algorithm).decide(*f, limit, now, stamp, cost)
}

// nearest returns the time of the stamp with which s begins: the time nearest to now with these 48 bits.
func nearest(s string, now int64) int64 {
	return now - (now-uint48(s))<<16>>16 // the sign of 48 bits
}

func uint48(s string) int64 { return uint24(s)<<24 | uint24(s[3:]) }

func uint24(s string) int64 { return int64(s[0])<<16 | int64(s[1])<<8 | int64(s[2]) }
