package script

import (
	_ "embed"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// A counter is a string of three numbers of 6 bytes: the count of the window before, the count of its own window, and
// the stamp of the beginning of its own window. A minute's counter has this value at 1790000070, after a request of
// cost 80 in the minute before and one of cost 30:
//
//	000000000050 00000000001e 5bfedc883a00
//
// The facts of a reply are this value. Of one more request of cost 1 at 1790000071 the reply is, TIME being text:
//
//	31373930303030303731 20 30 41 000000000050 00000000001e 5bfedc883a00

const counterBytes = 18

//go:embed counter.lua
var counterLua string

func init() {
	algorithms[core.SlidingCounter] = &algorithm{"c", "counter", &counterLua, readCounter, decideCounter}
}

func readCounter(s string, _ window.Limit, now int64) (f facts, rest string, ok bool) {
	if len(s) < counterBytes {
		return f, "", false
	}
	return facts{nearest(s[12:], now), [3]int64{uint48(s), uint48(s[6:])}}, s[counterBytes:], true
}

func decideCounter(f facts, l window.Limit, now, stamp, cost int64) window.Verdict {
	c := window.Counter{Index: f.newest / l.W, Prev: f.own[0], Cur: f.own[1]}
	return c.At(stamp, l.W).Decide(l, now, stamp, cost)
}
