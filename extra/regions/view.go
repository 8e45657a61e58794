package regions

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/sashlimit/sash/core"
)

// view is the state of a client, as known to the local region, for one decision.
type view struct {
	mayAdmit bool          // the request may be admitted; otherwise quotas are all that is left
	start    time.Duration // start of the wait for a poll; 0 if there was none

	known   bool    // the table has the client
	quotas  []quota // by limit
	lowered bool    // a quota is below its limit
	short   bool    // a quota is below the units that are left
	stale   bool    // units of another region have left since the poll

	nextExpiry time.Duration // time until a unit of another region leaves; 0 if there are none

	buf [4]quota
}

// quota is the part of a limit that this region may use.
type quota struct {
	left      int64 // units that the others leave, as far as known
	most      int64 // units that this region may use without a new poll, at most left
	localUsed int64 // units counted in the local region at the oldest poll
}

// read sets the view from the table at now.
func (v *view) read(q *request, now time.Duration) {
	t := q.rule.store.table
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.clients[q.holder]
	if v.known = c != nil; !v.known {
		c = &unknown
	}
	v.quotas = v.buf[:0]
	for l := range q.limits {
		r := v.readLimit(q, c, l, now)
		v.short = v.short || r.most < r.left
		v.lowered = v.lowered || r.most < q.limits[l].Requests
		v.quotas = append(v.quotas, r)
	}
}

// unknown is the entry of all clients that the table lacks.
var unknown client

// readLimit returns the quota of limit l. The units of a region's latest poll are withheld, and if that is older than
// 2 s, at least the region's share. t.mu must be held.
func (v *view) readLimit(q *request, c *client, l int, now time.Duration) quota {
	s, limit, others := q.rule.store, q.limits[l], q.rule.order[1:]
	share := q.share(limit.Requests, s.local)
	r := quota{left: limit.Requests, localUsed: math.MaxInt64}
	var unseen int64 // units withheld in the absence of a poll
	var before, busy bool
	for at, i := range others {
		var k usage
		if c.usages != nil {
			k = c.usages[l*len(others)+at]
		}
		if now-k.received >= limit.Window { // all units have left
			k.used, k.localUsed = 0, 0
		}
		r.left -= k.used
		busy = busy || k.used > 0
		silent := s.regions[i].silent(now)
		missing := max(0, q.share(limit.Requests, i)-k.used)
		switch isFresh := v.start > 0 && k.sent >= v.start; {
		case isFresh || k.received > 0 && !silent && now-k.sent <= silentAfter+s.table.every:
			r.localUsed, before = min(r.localUsed, k.localUsed), before || !isFresh
		case silent || v.start > 0:
			r.left -= missing
		default:
			unseen += missing
		}
		if k.used > 0 && !silent {
			left := k.nextExpiry - now
			if left <= 0 {
				v.stale, left = true, s.table.every
			}
			left = max(left, time.Millisecond)
			v.nextExpiry = min(cmp.Or(v.nextExpiry, left), left)
		}
	}
	if r.most = r.left; v.mayAdmit {
		if r.most -= unseen; before && r.localUsed < r.most {
			ahead := share
			if busy { // the others compete for the rest
				minDelay := limit.Requests / pollThreshold / int64(len(others))
				ahead = min(share, max(q.share(r.most-r.localUsed, s.local), minDelay))
			}
			r.most = min(r.most, r.localUsed+ahead)
		}
		r.most = max(r.most, min(share, r.left))
	}
	return r
}

// share returns region i's share of n units for the client of q.
func (q *request) share(n int64, i int) int64 {
	switch q.home {
	case -1:
		return share(n, i, len(q.rule.order))
	case i:
		return n
	}
	return 0
}

// exceeded returns the first limit whose quota a request exceeds but not its Requests, or -1. A charge and a cost of 0
// exceed no quota, even if the others have admitted more than the limit.
func (v *view) exceeded(ask *core.Ask, limits []core.Limit) int {
	for i, r := range v.quotas {
		if ask.Cost > max(0, r.most) && ask.Cost <= limits[i].Requests && !isCharge(ask) {
			return i
		}
	}
	return -1
}

// override returns an override with the limits lowered to their quotas.
func (v *view) override(ask *core.Ask, limits []core.Limit) *core.Override {
	var o core.Override
	if ask.Override != nil {
		o = *ask.Override
	}
	o.Limits = slices.Clone(limits)
	for i := range o.Limits {
		o.Limits[i].Requests = max(1, v.quotas[i].most)
	}
	return &o
}
