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
	ahead bool // the request may go no further than a share ahead of the last look

	known  bool   // the table has the client
	rooms  []room // by limit
	lowers bool   // less than all is left of a limit
	short  bool   // a share is less than what is left
	stale  bool   // what a region withholds is of a look that is not fresh

	leaves time.Duration // until a unit of another region counts no more; 0 if none counts
	at     time.Duration // the time by the clock of this region's store

	few [4]room
}

// room is how much of a limit this region may use.
type room struct {
	left  int64 // what the others leave
	most  int64 // the same, or up to a share ahead of the last look
	local int64 // units that counted here at the last look
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
	v.at, v.rooms = now+c.skew, v.few[:0]
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

// readLimit returns the room that a limit has. A region that is silent, or all where a look is overdue,
// withholds its share or what is known, whichever is more. t.mu must be held.
func (v *view) readLimit(q *question, c *client, l int, now time.Duration) room {
	limit, others := q.limits[l], q.order[1:]
	r := room{left: limit.Requests, local: math.MaxInt64 / 2}
	for at, i := range others {
		var k look
		if c.looks != nil {
			k = c.looks[l*len(others)+at]
		}
		if k.came > 0 && now-k.came >= limit.Window { // all units have left since
			k = look{}
		}
		r.left -= k.used
		if q.regions[i].silent(now) || c.overdue(now) {
			r.left -= max(0, q.share(limit.Requests, i)-k.used)
			continue
		}
		r.local = min(r.local, k.local)
		if k.used > 0 {
			v.stale = v.stale || now-k.sent > 2*q.table.every
			left := max(k.leaves-now, time.Millisecond)
			v.leaves = min(cmp.Or(v.leaves, left), left)
		}
	}
	r.most = r.left
	if share := q.share(limit.Requests, q.here); v.ahead && r.local < r.left-share {
		r.most = r.local + share
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
