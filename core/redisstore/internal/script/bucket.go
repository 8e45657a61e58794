package script

import (
	_ "embed"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// A bucket is a string of four numbers of 6 bytes: of what is used the whole units, and the rest, in parts of a unit
// of which the window has as many as microseconds; how many units come back in a window; and the stamp at which that
// was so. Under a limit of 100 per minute, a request of cost 3 at 1790000000 and one of cost 1 a second later leave
//
//	000000000002 000001312d00 000000000064 5bfeda352240
//
// A debt may last for 100 windows, and a stamp is known for 2^47 us, 4.4 years. One that nobody has touched for longer
// begins anew: it is read as no older than it is, so that more is owed and never less.
//
// The facts of a reply are this value. Of one more request of cost 1 at 1790000002 the reply is, TIME being text:
//
//	31373930303030303032 20 30 41 000000000002 000001312d00 000000000064 5bfeda352240

const bucketBytes = 24

//go:embed bucket.lua
var bucketLua string

func init() {
	rooms[core.Bucket] = &room{"b", "bucket", &bucketLua, readBucket, decideBucket}
}

func readBucket(s string, _ window.Limit, now int64) (f facts, rest string, ok bool) {
	if len(s) < bucketBytes {
		return f, "", false
	}
	return facts{nearest(s[18:], now), [3]int64{uint48(s), uint48(s[6:]), uint48(s[12:])}}, s[bucketBytes:], true
}

func decideBucket(f facts, l window.Limit, now, stamp, cost int64) window.Verdict {
	b := window.Bucket{At: f.newest, Units: f.own[0], Part: f.own[1], Rate: f.own[2]}
	return b.Decide(l, now, stamp, cost)
}
