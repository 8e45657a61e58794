package refused

// Stats returns how many refusals are remembered, and how many requests they have
// answered. A refusal that has ended is dropped at the next request of its client, and
// counts until then.
func (r *Refusals) Stats() (held int, answered uint64) {
	for i := range r.shards {
		h, a := r.shards[i].stats()
		held, answered = held+h, answered+a
	}
	return held, answered
}

// stats is Stats of one shard. It takes s.mu.
func (s *shard) stats() (held int, answered uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byKey), s.answered
}
