package regions

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/sashlimit/sash/core"
)

// view is what this region knows of a client when it decides a question.
type view struct {
	takes bool          // the request may be admitted; if not, all that is left counts
	asked time.Duration // when it began to wait for a look; 0 if it did not

	known  bool   // the table has the client
	rooms  []room // by limit
	lowers bool   // of a limit less may be used than all
	short  bool   // of a limit less may be used than is left
	stale  bool   // units of another region have left since they were seen

	leaves time.Duration // until a unit of another region leaves; 0 if there are none

	few [4]room
}

// room is the part of a limit that this region may use.
type room struct {
	left  int64 // what the others leave, as far as is known
	most  int64 // at most left: what this region may use without a new look
	local int64 // units that counted here at the oldest look
}

// read reads the table at now.
func (v *view) read(q *question, now time.Duration) {
	t := q.rule.store.table
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
		v.lowers = v.lowers || r.most < q.limits[l].Requests
		v.rooms = append(v.rooms, r)
	}
}

// unknown stands for a client that the table does not have.
var unknown client

// readLimit returns the room that a limit has. A region withholds the units of the latest look there. Without a look of
// the last 2 s it withholds its share, if that is more. t.mu must be held.
func (v *view) readLimit(q *question, c *client, l int, now time.Duration) room {
	s, limit, others := q.rule.store, q.limits[l], q.rule.order[1:]
	share := q.share(limit.Requests, s.here)
	r := room{left: limit.Requests, local: math.MaxInt64}
	var unseen int64 // units that are withheld for want of a look
	var before, busy bool
	for at, i := range others {
		var k look
		if c.looks != nil {
			k = c.looks[l*len(others)+at]
		}
		if now-k.came >= limit.Window { // all units have left since
			k.used, k.local = 0, 0
		}
		r.left -= k.used
		busy = busy || k.used > 0
		silent := s.regions[i].silent(now)
		lacks := max(0, q.share(limit.Requests, i)-k.used)
		switch awaited := v.asked > 0 && k.sent >= v.asked; {
		case awaited || k.came > 0 && !silent && now-k.sent <= silence+s.table.every:
			r.local, before = min(r.local, k.local), before || !awaited
		case silent || v.asked > 0:
			r.left -= lacks
		default:
			unseen += lacks
		}
		if k.used > 0 && !silent {
			left := k.leaves - now
			if left <= 0 {
				v.stale, left = true, s.table.every
			}
			left = max(left, time.Millisecond)
			v.leaves = min(cmp.Or(v.leaves, left), left)
		}
	}
	if r.most = r.left; v.takes {
		if r.most -= unseen; before && r.local < r.most {
			ahead := share
			if busy { // what is left is for all
				ahead = min(share, max(q.share(r.most-r.local, s.here), limit.Requests/unnoticed/int64(len(others))))
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
		return share(n, i, len(q.rule.order))
	case i:
		return n
	}
	return 0
}

// exceeded returns the first limit that has no room for a request but would have it without the others,
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
