package gather

import "time"

// allowsInline reports whether the caller is to serve its call itself, and returns the time if so. That saves two
// switches between goroutines: a caller that is alone is as fast as the client of the server is without this package.
// Calls that would have to wait for a slot are left to workers (TestInlineSlots), and so are calls whose callers must
// not wait for the server until the deadline (TestInline). q.mu must be held.
func (q *Queue[Q, A]) allowsInline(c *Call[Q, A]) (now time.Time, ok bool) {
	if !q.slots.free() {
		return now, false
	}
	now = time.Now()
	left := c.Deadline.Sub(now)
	if left <= 0 || left < q.config.InlineMin || left > q.config.InlineMax || c.Context.Err() != nil {
		return now, false
	}
	end, ends := c.Context.Deadline()
	return now, !ends || !end.Before(c.Deadline)
}

// serveInline serves a call on its caller's goroutine. Calls that came meanwhile are left to a worker, since a caller
// must not be kept by the calls of others (TestInlineSlots). If Serve panics, the caller may recover: then the slot
// must be free (TestInlinePanic).
func (q *Queue[Q, A]) serveInline(c *Call[Q, A]) {
	inTime := false
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.end(&c.own, time.Now(), inTime)
		q.dispatch()
	}()
	inTime = q.serve(&c.own)
}
