package core

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/sashlimit/sash/internal/errs"
)

// SetLimits changes how many requests the limits of a limiter allow while the limiter is
// in use, on the same counts. Give one limit for each limit of the rule, in the same
// order, with other Requests; an empty Name means that of the rule's limit. Every
// decision that begins after SetLimits has returned is made by the new numbers, and each
// decision by the old ones or the new ones, never by some of both. A raised limit
// admits at once. Under a lowered one a client that has used more has a Remaining of 0
// until enough units have left the window.
//
// The error says what is wrong, and nothing has changed then. Another name, algorithm or
// window is such an error, since it is another count: make a limiter for it, with
// [Limiter.WithLimits] or [Limiter.Rule].
//
// Callers of [Limiter.Wait] ask again at once. The callers of a copy's Wait ask when they
// would have asked anyway.
//
// The copies that WithPolicy returns are the same limiter: what is set for one is set for
// all, whichever was made first. Rules, limiters of WithLimits, limiters of the same name
// that were made on their own, and other processes keep their numbers. [Request].Limits
// go before the numbers of SetLimits.
//
// A limiter whose limits were changed takes a little longer for a decision, as for a
// request with Limits of its own, and takes none from a lease, until SetLimits gives it
// its first numbers again.
func (l *Limiter) SetLimits(limits ...Limit) error {
	if l.changes == nil {
		return errors.New("sash: the zero Limiter has no limits: make a limiter with core.New")
	}
	checked, err := l.replacing(limits, "SetLimits")
	if err != nil {
		return constructionError(l.config.Name, l.rule, err)
	}
	checked = slices.Clone(checked)
	if slices.Equal(checked, l.limits) {
		checked = nil
	}
	for {
		old := l.changes.Load()
		if l.changes.CompareAndSwap(old, &change{checked, old.revisionOrZero() + 1}) {
			l.waiting.reopenAll()
			return nil
		}
	}
}

// WithLimits returns the same limiter with other limits, of which the windows may differ
// too: the name, the rule, the store and the policy are the same. So a limit that has the
// name, the algorithm and the window of one of l's is the same count, and a client keeps
// what it has used. Other limits have counts of their own. [Limiter.SetLimits] of l does
// not change the limiter that is returned.
//
// The error is that of [New]. Make a limiter once and use it again: a store keeps what it
// knows of limits.
func (l *Limiter) WithLimits(limits ...Limit) (*Limiter, error) {
	return build(l.config, l.rule, limits)
}

// CheckLimits returns the error that a decision has with these [Request].Limits, or nil.
// It is for numbers that are known before there is a request.
func (l *Limiter) CheckLimits(limits ...Limit) error {
	_, err := l.replacing(limits, "limits")
	return err
}

// Revision returns how many times SetLimits has changed the limits. What is prepared for
// the limits, such as header fields, is out of date when it has grown.
func (l *Limiter) Revision() uint64 {
	if l.changes == nil {
		return 0
	}
	return l.changes.Load().revisionOrZero()
}

// change is what SetLimits has set.
type change struct {
	limits   []Limit // nil for those of the construction
	revision uint64
}

// revisionOrZero returns 0 for a nil change: the limits were never changed.
func (c *change) revisionOrZero() uint64 {
	if c == nil {
		return 0
	}
	return c.revision
}

// changes holds the latest change of a limiter and of its copies; nil if there is none.
type changes = atomic.Pointer[change]

// changed returns the limits of SetLimits, or nil if the first ones hold.
func (l *Limiter) changed() []Limit {
	if l.changes == nil {
		return nil
	}
	if c := l.changes.Load(); c != nil {
		return c.limits
	}
	return nil
}

// current returns the limits that hold at present. The caller must not change them.
func (l *Limiter) current() []Limit {
	if limits := l.changed(); limits != nil {
		return limits
	}
	return l.limits
}

// replacing checks limits that are to stand in for the limiter's own, and returns them with
// their names filled in. The slice is the caller's own if no name is missing.
// what is how the caller has given them, for errors.
func (l *Limiter) replacing(given []Limit, what string) ([]Limit, error) {
	if len(given) != len(l.limits) {
		return nil, fmt.Errorf("sash: %s has %d limits, and %v has %d: give one for each",
			what, len(given), l, len(l.limits))
	}
	checked := given
	for i := range given {
		own := &l.limits[i]
		if given[i].Name == "" {
			if &checked[0] == &given[0] { // they are the caller's
				checked = slices.Clone(given)
			}
			checked[i].Name = own.Name
		}
		wanted := *own
		wanted.Requests = given[i].Requests
		if checked[i] != wanted {
			return nil, fmt.Errorf("sash: %s[%d] is %v: give the limit %v of %v with other Requests, "+
				"or make a limiter for another window with WithLimits",
				what, i, checked[i], *own, l)
		}
		if err := wanted.check(); err != nil {
			return nil, fmt.Errorf("sash: %s[%d]: %s", what, i, errs.Text(err))
		}
	}
	return checked, nil
}

// reopenAll lets the first waiter of each key ask at once.
func (s *waitQueues) reopenAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.byKey {
		q.outlook, q.reopened = outlook{}, true
		q.wakeFirst()
	}
}
