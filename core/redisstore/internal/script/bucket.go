package script

import (
	_ "embed"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// A bucket is a string of four numbers of a [window.Bucket], of 7, 5, 6 and 6 bytes: Owed, Fraction, Elapsed, and At as
// a stamp. Under a limit of 7 per minute, a request of cost 3 at 1790000000 and one of cost 1 a second later leave
//
//	00000001fbe652 4924924924 0000000f4240 5bfeda352240
//
// A debt is cut at 2^52 us, 142 years. A stamp is read right for 2^47 us, 4.4 years. An older one is read as a later
// time, so the debt is read too high, never too low.
//
// The facts of a reply are this value. Of one more request of cost 1 at 1790000002 the reply is, TIME being text:
//
//	31373930303030303032 20 30 41 00000001fbe652 4924924924 0000000f4240 5bfeda352240

const bucketBytes = 24

//go:embed bucket.lua
var bucketLua string

func init() {
	algorithms[core.Bucket] = &algorithm{"b", "bucket", &bucketLua, readBucket, decideBucket}
}

func readBucket(s string, _ window.Limit, now int64) (f facts, rest string, ok bool) {
	if len(s) < bucketBytes {
		return f, "", false
	}
	owed, fraction := int64(s[0])<<48|uint48(s[1:]), int64(s[7])<<32|uint48(s[6:])&(1<<32-1)
	return facts{nearest(s[18:], now), [3]int64{owed, fraction, uint48(s[12:])}}, s[bucketBytes:], true
}

func decideBucket(f facts, l window.Limit, now, stamp, cost int64) window.Verdict {
	b := window.Bucket{At: f.newest, Owed: f.own[0], Fraction: f.own[1], Elapsed: f.own[2]}
	_, v := b.Decide(l, now, stamp, cost)
	return v
}
