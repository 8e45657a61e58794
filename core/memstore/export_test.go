package memstore

// EvictAll evicts every client: what is counted stands in the sketches alone.
func (s *Store) EvictAll() {
	for i := range s.shards {
		sh := &s.shards[i]
		for now := s.lock(sh); sh.n > 0; {
			sh.evict(sh.n-1, now)
		}
		sh.mu.Unlock()
	}
}
