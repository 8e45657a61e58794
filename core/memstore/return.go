package memstore

import (
	"context"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// Return implements [core.Counts]. It ignores the context: it waits for nothing. What an
// evicted client has counted stays in the sketch, where others may depend on it.
func (c *counts) Return(_ context.Context, back core.Back) (int64, error) {
	h := c.store.hash(back.Key)
	sh := c.store.shard(h)
	r := request{hash: h, Request: window.Request{Now: c.store.lock(sh)}}
	defer sh.mu.Unlock()
	var few [8]held
	all := append(few[:0], make([]held, len(c.limits))...)
	c.lookup(sh, &r, all, true)
	units := back.Units
	for i := range all {
		units = min(units, c.limits[i].giveBack(&all[i], &r, &back))
	}
	return units, nil
}

// giveBack takes back units under one limit, and returns how many of them count no more.
func (l *limit) giveBack(known *held, r *request, back *core.Back) int64 {
	at := back.At.UnixMicro()
	switch s := known.slot; {
	case s == nil && known.past.None():
		return back.Units
	case s == nil, s.is(hides) && !l.Algorithm.Exact():
		return 0 // which of the units in the sketch were counted at that time is not known
	default:
		return s.count.Return(l.bound.Limit, at, r.Now, back.Units)
	}
}
