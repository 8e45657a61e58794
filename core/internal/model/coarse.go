package model

import (
	"maps"
	"slices"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// coarse holds units by the number of their slot.
type coarse map[int64]int64

func slotLength(w int64) int64 { return (w + 59) / 60 }

// stamp returns the last moment of a slot: its units count for a window after that.
func stamp(w, slot int64) int64 { return (slot+1)*slotLength(w) - 1 }

// counted returns the slots that count at now, oldest first, and their units.
func (c coarse) counted(w, now int64) (slots []int64, units int64) {
	for _, slot := range slices.Sorted(maps.Keys(c)) {
		if stamp(w, slot) > now-w {
			slots, units = append(slots, slot), units+c[slot]
		}
	}
	return slots, units
}

func (c coarse) begun(w int64) (at int64) {
	for slot := range c {
		at = max(at, slot*slotLength(w))
	}
	return at
}

func (c coarse) decide(l window.Limit, now, at, cost int64) window.Verdict {
	slots, units := c.counted(l.W, now)
	v := window.Verdict{Admitted: cost == 0 || cost <= l.N && units+cost <= l.N}
	counted := units
	if v.Admitted {
		counted += cost
	}
	v.Remaining = max(0, l.N-counted)
	if len(slots) > 0 {
		v.ResetAfter = stamp(l.W, slots[0]) + l.W - now
	} else if counted > 0 {
		v.ResetAfter = stamp(l.W, at/slotLength(l.W)) + l.W - now
	}
	if !v.Admitted && cost > l.N {
		v.RetryAfter = window.Never
		return v
	}
	for i := 0; !v.Admitted && units+cost > l.N; i++ {
		units -= c[slots[i]]
		v.RetryAfter = stamp(l.W, slots[i]) + l.W - now
	}
	return v
}

func (c coarse) units(l window.Limit, now, _ int64) int64 {
	_, units := c.counted(l.W, now)
	return units
}

func (c coarse) back(w, at, now, units int64) int64 {
	slot := at / slotLength(w)
	if _, counted := c.counted(w, now); counted == 0 || stamp(w, slot) <= now-w {
		return units
	}
	units = min(units, c[slot])
	if c[slot] -= units; c[slot] == 0 {
		delete(c, slot)
	}
	return units
}

func (c coarse) charge(w, now, at, cost int64) {
	maps.DeleteFunc(c, func(slot, _ int64) bool { return stamp(w, slot) <= now-w })
	slot := at / slotLength(w)
	c[slot] = min(c[slot]+cost, core.MaxCounterRequests)
}
