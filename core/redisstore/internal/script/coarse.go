package script

import (
	_ "embed"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// A coarse log is a string: a byte that says how many bytes each total has, 3 or 6; the stamp of the last microsecond
// of the newest slot; the running total of units before the oldest slot; and the running total with each slot in turn,
// also where a slot between is empty, modulo 2^24 or 2^48. The newest slot is not empty. A total has 6 bytes once 2^24
// units count. Under a limit of 1000 per minute, a request of cost 300 in the second that begins at 1790000040 and one
// of cost 5 two seconds later leave
//
//	03 5bfedcb600bf 000000 00012c 00012c 000131
//
// The facts of a reply are
//
//	C stamp units o l  the end of the newest slot; the units that count, 6 bytes; and how many slots before the newest
//	                   are the oldest one with units and the expiring entry, a byte each; see log.go

const coarseFacts = 15

//go:embed coarse.lua
var coarseLua string

func init() {
	algorithms[core.CoarseLog] = &algorithm{"s", "coarse", &coarseLua, readCoarse, decideCoarse}
}

// readCoarse has the beginning of a slot as the newest stamp.
func readCoarse(s string, l window.Limit, now int64) (f facts, rest string, ok bool) {
	if s[0] != 'C' || len(s) < coarseFacts {
		return f, "", false
	}
	end, slot := nearest(s[1:], now), l.Slot()
	oldest, expiring := end-int64(s[13])*slot, end-int64(s[14])*slot
	return facts{end - slot + 1, [3]int64{uint48(s[7:]), oldest, expiring}}, s[coarseFacts:], true
}

func decideCoarse(f facts, l window.Limit, now, stamp, cost int64) window.Verdict {
	log := window.LogFacts{Units: f.own[0], Oldest: f.own[1], Expiring: f.own[2]}
	return log.Decide(l, now, l.SlotEnd(stamp), cost)
}
