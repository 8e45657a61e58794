package gather

import "time"

// beginInline reports whether the caller is to serve its call itself, and begins the call's own batch if so. That saves
// two switches between goroutines: a caller that is alone is as fast as the client of the server is without this
// package. Calls that would have to wait for a slot are left to workers (TestInlineSlots), and so are calls whose
// callers must not wait for the server until the deadline (TestInline). q.mu must be held.
func (q *Queue[Q, A]) beginInline(c *Call[Q, A]) bool {
	if !q.slots.free() {
		return false
	}
	now := time.Now()
	left := c.Deadline.Sub(now)
	if left <= 0 || left < q.config.InlineMin || left > q.config.InlineMax || c.Context.Err() != nil {
		return false
	}
	if end, ends := c.Context.Deadline(); ends && end.Before(c.Deadline) {
		return false
	}
	q.begin(&c.own, now)
	return true
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
