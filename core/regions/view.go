package regions

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/sashlimit/sash/core"
)

// view is what a question is decided by.
type view struct {
	takes bool          // the request may be admitted; where not, all that is left counts
	asked time.Duration // since when it has waited for a look; 0 if it has not

	known  bool   // the table has the client
	rooms  []room // by limit
	lowers bool   // less than all is left of a limit
	short  bool   // less may be used of a limit than is left by what is known
	stale  bool   // units of another region have left since they were seen

	leaves time.Duration // until a unit of another region counts no more; 0 if none counts

	few [4]room
}

// room is how much of a limit this region may use.
type room struct {
	left  int64 // what the others leave, by what is known
	most  int64 // the same, or less: what may be used by the looks that there are
	local int64 // units that counted here at the oldest of these
}

// read reads what the table has at now.
func (v *view) read(q *question, now time.Duration) {
	t := q.table
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.clients[q.holder]
	if v.known = c != nil; !v.known {
		c = &unknown
	}
	v.rooms = v.few[:0]
	for l := range q.limits {
		r := v.readLimit(q, c, l, now)
		v.short = v.short || r.most < r.left
		if r.most < q.limits[l].Requests {
			v.lowers = true
		}
		v.rooms = append(v.rooms, r)
	}
}

// unknown stands for a client that the table does not have.
var unknown client

// readLimit returns the room that a limit has. A region withholds what a look has found there. Without a look of
// the last 2 s it withholds its share, if that is more. t.mu must be held.
func (v *view) readLimit(q *question, c *client, l int, now time.Duration) room {
	limit, others, share := q.limits[l], q.order[1:], q.share(q.limits[l].Requests, q.here)
	r := room{left: limit.Requests, local: math.MaxInt64}
	var unseen int64 // units that are withheld for want of a look
	var before, busy bool
	for at, i := range others {
		var k look
		if c.looks != nil {
			k = c.looks[l*len(others)+at]
		}
		if k.came > 0 && now-k.came >= limit.Window { // all units have left since
			k = look{}
		}
		r.left -= k.used
		busy = busy || k.used > 0
		silent := q.regions[i].silent(now)
		lacks := max(0, q.share(limit.Requests, i)-k.used)
		switch awaited := v.asked > 0 && k.sent >= v.asked; {
		case awaited || k.came > 0 && !silent && now-k.sent <= silence+q.table.every:
			r.local, before = min(r.local, k.local), before || !awaited
		case silent || v.asked > 0:
			r.left -= lacks
		default:
			unseen += lacks
		}
		if k.used > 0 && !silent {
			left := k.leaves - now
			if v.stale = v.stale || left <= 0; left <= 0 {
				left = q.table.every
			}
			left = max(left, time.Millisecond)
			v.leaves = min(cmp.Or(v.leaves, left), left)
		}
	}
	if r.most = r.left; v.takes {
		if r.most -= unseen; before && r.local < r.most {
			ahead := share
			if busy { // what is left is for all
				ahead = min(share, max(q.share(r.most-r.local, q.here), limit.Requests/unnoticed/int64(len(others))))
			}
			r.most = min(r.most, r.local+ahead)
		}
		r.most = max(r.most, min(share, r.left))
	}
	return r
}

// share returns the share of region i of n units, for the client that asks.
func (q *question) share(n int64, i int) int64 {
	switch q.home {
	case -1:
		return share(n, i, len(q.regions))
	case i:
		return n
	}
	return 0
}

// exceeded returns the first limit that has no room for a request but would have without the others,
// or -1. A charge and a cost of 0 need no room, even where the others have admitted more than the limit.
func (v *view) exceeded(ask *core.Ask, limits []core.Limit) int {
	for i, r := range v.rooms {
		if ask.Cost > max(0, r.most) && ask.Cost <= limits[i].Requests && !isCharge(ask) {
			return i
		}
	}
	return -1
}

// override returns an override with the limits lowered to the room that they have.
func (v *view) override(ask *core.Ask, limits []core.Limit) *core.Override {
	var o core.Override
	if ask.Override != nil {
		o = *ask.Override
	}
	o.Limits = slices.Clone(limits)
	for i := range o.Limits {
		o.Limits[i].Requests = max(1, v.rooms[i].most)
	}
	return &o
}
