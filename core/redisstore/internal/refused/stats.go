package refused

// Held returns how many refusals are remembered. Some of them may have ended: they are
// dropped when they are looked up.
func (r *Refusals) Held() (n int) {
	for i := range r.shards {
		n += r.shards[i].held()
	}
	return n
}

// held returns how many refusals the shard holds. It takes s.mu.
func (s *shard) held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byKey)
}
