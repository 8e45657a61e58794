package lease

import "time"

// Unspent returns how many leases have units to spend at now, and how many units.
func (t *Table) Unspent(now time.Time) (leases, units int64) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, e := range s.byHolder {
			if e.has(now, 1) {
				leases, units = leases+1, units+e.left
			}
		}
		s.mu.Unlock()
	}
	return leases, units
}
