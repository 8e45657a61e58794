package refused

// Held returns how many refusals are remembered. A refusal that has ended is dropped at
// the next request of its client, and counts until then.
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
