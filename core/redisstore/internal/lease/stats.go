package lease

import "time"

// Unspent returns how many leases have units to spend at now, and how many units.
func (t *Table) Unspent(now time.Time) (leases, units int64) {
	for i := range t.shards {
		n, left := t.shards[i].unspent(now)
		leases, units = leases+n, units+left
	}
	return leases, units
}

// unspent is Unspent for a shard. It takes s.mu.
func (s *shard) unspent(now time.Time) (leases, units int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.byHolder {
		if e.has(now, 1) {
			leases, units = leases+1, units+e.left
		}
	}
	return leases, units
}
