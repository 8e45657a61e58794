package script

import (
	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// This file has all that is known of an algorithm, but for the steps in scripts.lua.tmpl, which write what
// is described here. TestFormats holds both to the examples.
//
// Numbers are big-endian. A stamp is a time in microseconds modulo 2^48; of the times that it may be, it is the one
// nearest to TIME.
//
// A log is a list, newest last. An entry has 9 bytes, or 12 if its cost is not 1:
//
//   - 6 bytes: the stamp
//   - 3 bytes: the running total of costs up to and with the entry, modulo 2^20, plus 2^20 times the number of entries
//     at the front of the list that are dropped as of this entry, 8 at most
//   - 3 bytes: the cost, if it is not 1
//
// Under a limit of 1000 per minute, a request of cost 1 at 1790000000.000005, one of cost 300 a second later, and one
// of cost 1 at 1790000060.500005, when the first has expired, leave the list
//
//	5bfeda25e005 000001
//	5bfeda352245 00012d 00012c
//	5bfeddc10825 10012e
//
// A counter is a string of three numbers of 6 bytes: the count of the window before, the count of its own window, and
// the stamp of the beginning of its own window. A minute's counter has this value at 1790000070, after a request of
// cost 80 in the minute before and one of cost 30:
//
//	000000000050 00000000001e 5bfedc883a00
//
// A coarse log is a string: a byte that says how many bytes each total has, 3 or 6; the stamp of the last microsecond
// of the newest slot; the running total of units before the oldest slot; and the running total with each slot in turn,
// also where a slot between is empty, modulo 2^24 or 2^48. The newest slot is not empty. A total has 6 bytes once 2^24
// units count. Under a limit of 1000 per minute, a request of cost 300 in the second that begins at 1790000040 and one
// of cost 5 two seconds later leave
//
//	03 5bfedcb600bf 000000 00012c 00012c 000131
//
// The part of the reply for a request (see scripts.lua.tmpl) is
//
//	F, the key that held a value which is not the store's, and a line feed
//	E, an error of Redis, and a line feed
//	A or R (admitted by all limits, or refused), and for each limit the facts by which it was judged, before counting
//
// The facts are - where nothing counts. Else those of a counter are its value, and those of a log are
//
//	S entry entry        the newest entry and the oldest that counts, 9 bytes each; the oldest is the leaver too
//	M entry entry entry  the newest, the oldest that counts and the leaver, each after S if it has 9 bytes or L if it
//	                     has 12; or - for the leaver, if it is the oldest or if no entry must leave
//
// where the leaver is the entry whose leaving makes room for the request. Those of a coarse log are
//
//	C stamp units o l  the end of the newest slot; the units that count, 6 bytes; and how many slots before the newest
//	                   are the oldest one with units and the leaver, a byte each
//
// Of one more request of cost 1 in the log above at 1790000060.600005, and in the counter at 1790000071, the replies
// are, TIME being text:
//
//	31373930303030303630 20 363030303035 41 4d 53 5bfeddc10825 10012e 4c 5bfeda352245 00012d 00012c 2d
//	31373930303030303731 20 30 41 000000000050 00000000001e 5bfedc883a00

const (
	shortEntry = 9
	longEntry  = 12
	totals     = 1 << 20 // running totals are modulo that

	counterBytes = 18
	mostCounted  = core.MaxCounterRequests + 255 // of a counter's window

	coarseFacts = 15
	mostCoarse  = 1 << 47 // 120 slots hold less
)

// format is how an algorithm is named.
type format struct {
	letter string // in keys
	steps  string // in scripts.lua.tmpl
}

// formatOf returns the format of an algorithm. It panics if the algorithm is unknown, as all functions of this file do.
func formatOf(a core.Algorithm) format {
	switch a {
	case core.SlidingLog:
		return format{letter: "l", steps: "log"}
	case core.SlidingCounter:
		return format{letter: "c", steps: "counter"}
	case core.CoarseLog:
		return format{letter: "s", steps: "coarse"}
	}
	panic(unknown(a))
}

func unknown(a core.Algorithm) string { return "sash: unknown algorithm: " + a.String() }

// facts are what a limit is judged by.
type facts struct {
	log     window.LogFacts // of a coarse log too
	counter window.Counter
}

// read reads the facts of a limit with which s begins. It returns the rest of s and the newest stamp: no later request
// is counted before that. ok reports whether the facts could be read.
func (f *facts) read(s string, l core.Limit, now int64) (newest int64, rest string, ok bool) {
	switch {
	case s == "":
		return 0, "", false
	case s[0] == '-':
		return 0, s[1:], true
	}
	switch l.Algorithm {
	case core.SlidingLog:
		return f.readLog(s, now)
	case core.SlidingCounter:
		return f.readCounter(s, l.Window.Microseconds(), now)
	case core.CoarseLog:
		return f.readCoarse(s, window.Limit{W: l.Window.Microseconds()}.Slot(), now)
	}
	panic(unknown(l.Algorithm))
}

// possible reports whether a server that keeps to the limit can tell these facts at now: what counts has not left the
// window, and is not of a time after latest. newest is what read returned.
func (f *facts) possible(l core.Limit, now, newest, latest int64) bool {
	if newest == 0 { // nothing counts
		return true
	}
	last, most, w := newest, int64(totals), l.Window.Microseconds()
	switch l.Algorithm {
	case core.SlidingCounter:
		return newest <= latest && newest%w == 0 && max(f.counter.Prev, f.counter.Cur) <= mostCounted
	case core.CoarseLog:
		last, most = newest+window.Limit{W: w}.Slot()-1, mostCoarse
	}
	return newest <= latest && now-w < f.log.Oldest && f.log.Oldest <= f.log.Leaver && f.log.Leaver <= last &&
		0 < f.log.Units && f.log.Units < most
}

// decide returns what the limit says to a request at now, which is counted at stamp if it is admitted or a charge.
func (f *facts) decide(l core.Limit, now, stamp, cost int64, charge bool) (v window.Verdict) {
	limit := window.Limit{N: l.Requests, W: l.Window.Microseconds()}
	if charge {
		limit.N = window.Boundless
	}
	switch l.Algorithm {
	case core.SlidingLog:
		v = f.log.Decide(limit, now, stamp, cost)
	case core.SlidingCounter:
		v = f.counter.At(stamp, limit.W).Decide(limit, now, stamp, cost)
	case core.CoarseLog:
		v = f.log.Decide(limit, now, limit.SlotEnd(stamp), cost)
	default:
		panic(unknown(l.Algorithm))
	}
	if charge {
		v = window.Limit{N: l.Requests}.Charged(v)
	}
	return v
}

// readLog is read for a log.
func (f *facts) readLog(s string, now int64) (newest int64, rest string, ok bool) {
	var first, last, leaver entry
	switch s[0] {
	case 'S':
		if len(s) < 1+2*shortEntry {
			return 0, "", false
		}
		last = readEntry(s[1:], shortEntry, now)
		first, s = readEntry(s[1+shortEntry:], shortEntry, now), s[1+2*shortEntry:]
	case 'M':
		s = s[1:]
		for _, e := range []*entry{&last, &first, &leaver} {
			if *e, s, ok = markedEntry(s, now); !ok {
				return 0, "", false
			}
		}
		if first.size == 0 || last.size == 0 {
			return 0, "", false
		}
	default:
		return 0, "", false
	}
	if leaver.size == 0 {
		leaver = first
	}
	f.log = window.LogFacts{
		Units:  (last.total - first.total + first.cost) & (totals - 1),
		Oldest: first.stamp,
		Leaver: leaver.stamp,
	}
	return last.stamp, s, true
}

// readCounter is read for a counter with windows of w microseconds.
func (f *facts) readCounter(s string, w, now int64) (start int64, rest string, ok bool) {
	if len(s) < counterBytes {
		return 0, "", false
	}
	start = nearest(s[12:], now)
	f.counter = window.Counter{Index: start / w, Prev: uint48(s), Cur: uint48(s[6:])}
	return start, s[counterBytes:], true
}

// readCoarse is read for a coarse log with slots of the given length. The newest stamp is the beginning of a slot.
func (f *facts) readCoarse(s string, slot, now int64) (begin int64, rest string, ok bool) {
	if s[0] != 'C' || len(s) < coarseFacts {
		return 0, "", false
	}
	end := nearest(s[1:], now)
	f.log = window.LogFacts{
		Units: uint48(s[7:]), Oldest: end - int64(s[13])*slot, Leaver: end - int64(s[14])*slot,
	}
	return end - slot + 1, s[coarseFacts:], true
}

// entry is an entry of a log, or none if its size is 0.
type entry struct {
	size               int
	stamp, total, cost int64
}

// readEntry reads the entry of the given size with which s begins.
func readEntry(s string, size int, now int64) entry {
	e := entry{size, nearest(s, now), uint24(s[6:]), 1}
	if size == longEntry {
		e.cost = uint24(s[9:])
	}
	return e
}

// markedEntry reads an entry after the mark of its size, or the mark of none.
func markedEntry(s string, now int64) (e entry, rest string, ok bool) {
	if s == "" {
		return e, "", false
	}
	size := 0
	switch s[0] {
	case '-':
		return e, s[1:], true
	case 'S':
		size = shortEntry
	case 'L':
		size = longEntry
	}
	if size == 0 || len(s) < 1+size {
		return e, "", false
	}
	return readEntry(s[1:], size, now), s[1+size:], true
}

// nearest returns the time of the stamp with which s begins: the time nearest to now with these 48 bits.
func nearest(s string, now int64) int64 {
	return now - (now-uint48(s))<<16>>16 // the sign of 48 bits
}

func uint48(s string) int64 { return uint24(s)<<24 | uint24(s[3:]) }

func uint24(s string) int64 { return int64(s[0])<<16 | int64(s[1])<<8 | int64(s[2]) }
