package bench

import (
	"errors"
	"slices"

	"github.com/sashlimit/sash/core"
)

// traffic describes the clients and requests of an actor of sash.
type traffic struct {
	name      string
	clients   int
	prefilled int // requests of each client before the first turn
	together  int // decisions in a script
	goal      Goal
	limits    []core.Limit
}

// prefill returns the commands and the actor of traffic, with prefilled counts.
func (l *lab) prefill(t traffic) (*sashCalls, *actor, error) {
	c, err := l.sash(t.clients, t.limits...)
	if err != nil {
		return nil, nil, err
	}
	if err := c.fill(t.prefilled); err != nil {
		return nil, nil, err
	}
	a, err := c.actor(t.name, t.goal, t.together)
	return c, a, err
}

// fresh returns an actor of traffic that is admitted, and of which nothing expires.
// Before the counts reach a limit, the actor resets them to the prefilled ones.
func (l *lab) fresh(t traffic) (*actor, error) {
	c, a, err := l.prefill(t)
	if err != nil {
		return nil, err
	}
	since := 0 // value of a.next when the counts were prefilled
	tightest := slices.MinFunc(t.limits, func(a, b core.Limit) int { return int(a.Requests - b.Requests) })
	room := tightest.Requests - int64(t.prefilled)
	a.before = func() error {
		if int64((a.next-since+turnPipelines*pipelined)/t.clients+1) < room {
			return nil
		}
		since = a.next
		return errors.Join(c.empty(), c.fill(t.prefilled))
	}
	a.checkCounts = func() error { return c.checkCounts(int64(t.prefilled*t.clients+a.next-since), true) }
	return a, nil
}

// refused returns an actor of clients that have used up the limit of t, which has
// no other limit.
func (l *lab) refused(t traffic) (*actor, error) {
	limit := t.limits[0]
	t.prefilled = int(limit.Requests)
	c, a, err := l.prefill(t)
	if err != nil {
		return nil, err
	}
	a.checkCounts = func() error { return c.checkCounts(limit.Requests*int64(t.clients), false) }
	return a, nil
}
