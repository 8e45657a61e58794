package script

import (
	_ "embed"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

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
// The facts of a reply are
//
//	S entry entry        the newest entry and the oldest that counts, 9 bytes each; the oldest is the expiring one too
//	M entry entry entry  the newest, the oldest that counts and the expiring one, each after S if it has 9 bytes or L if
//	                     12; or - for the expiring entry, if it is the oldest or if no entry must expire
//
// The expiring entry must expire before the request fits. Of one more request of cost 1 in the log
// above at 1790000060.600005 the reply is, TIME being text:
//
//	31373930303030303630 20 363030303035 41 4d 53 5bfeddc10825 10012e 4c 5bfeda352245 00012d 00012c 2d

const (
	shortEntry   = 9
	longEntry    = 12
	totalModulus = 1 << 20 // running totals are modulo that
)

//go:embed log.lua
var logLua string

func init() {
	algorithms[core.SlidingLog] = &algorithm{"l", "log", &logLua, readLog, decideLog}
}

func readLog(s string, _ window.Limit, now int64) (f facts, rest string, ok bool) {
	var first, last, expiring entry
	switch s[0] {
	case 'S':
		if len(s) < 1+2*shortEntry {
			return f, "", false
		}
		last = readEntry(s[1:], shortEntry, now)
		first, s = readEntry(s[1+shortEntry:], shortEntry, now), s[1+2*shortEntry:]
	case 'M':
		s = s[1:]
		for _, e := range []*entry{&last, &first, &expiring} {
			if *e, s, ok = markedEntry(s, now); !ok {
				return f, "", false
			}
		}
		if first.size == 0 || last.size == 0 {
			return f, "", false
		}
	default:
		return f, "", false
	}
	if expiring.size == 0 {
		expiring = first
	}
	units := (last.total - first.total + first.cost) & (totalModulus - 1)
	return facts{last.stamp, [3]int64{units, first.stamp, expiring.stamp}}, s, true
}

func decideLog(f facts, l window.Limit, now, stamp, cost int64) window.Verdict {
	return window.LogFacts{Units: f.own[0], Oldest: f.own[1], Expiring: f.own[2]}.Decide(l, now, stamp, cost)
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
