package remember

// Stats returns how many refusals are remembered, and how many requests they have
// answered. A refusal that has ended is dropped at the next request of its client, and
// counts until then.
func (r *Refusals) Stats() (held int64, answered uint64) {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		held += int64(len(s.byKey))
		answered += s.answered
		s.mu.Unlock()
	}
	return held, answered
}
