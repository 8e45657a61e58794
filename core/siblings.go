package core

import (
	"reflect"
	"sync"
	"time"
	"weak"
)

// siblings are the limiters of this process that share their counts: they have one
// name, one rule and one store. Only they keep it in memory.
type siblings struct {
	store   Store
	noticed sync.Map // the codes of the notices that an observer has heard of
	shared  sync.Map // what Limiter.Shared has returned, by key

	mu       sync.Mutex // guards the fields below
	requests map[countID]int64
	unnamed  int // limiters that New has made without a name
}

// countID is the part of a count's identity that a limit has.
type countID struct {
	limit     string
	algorithm Algorithm
	window    time.Duration
}

// maxCounts is the most limits of which siblings compare the numbers.
const maxCounts = 64

// note notes the numbers of limits that were bound, and returns the first limit of which
// another number is known, with that number. It returns a nil limit if there is none.
func (s *siblings) note(limits []Limit) (differs *Limit, other int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range limits {
		l := &limits[i]
		id := countID{l.Name, l.Algorithm, l.Window}
		known, ok := s.requests[id]
		switch {
		case ok && known != l.Requests && differs == nil:
			differs, other = l, known
		case !ok && len(s.requests) < maxCounts:
			if s.requests == nil {
				s.requests = map[countID]int64{}
			}
			s.requests[id] = l.Requests
		}
	}
	return differs, other
}

// noteUnnamed counts a limiter without a name, and returns how many there are.
func (s *siblings) noteUnnamed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unnamed++
	return s.unnamed
}

// census finds the siblings of a limiter. It keeps neither limiters nor stores in memory.
type census struct {
	mu    sync.Mutex // guards the field below and what it holds
	known map[limiterID]*namesakes
}

// namesakes are the limiters of one name and rule, on whatever stores.
type namesakes struct {
	groups []weak.Pointer[siblings]

	since time.Time // the start of the minute in which used counts
	used  int       // limiters that decided a request as soon as they were made
	said  bool      // whether a notice about that has been given
}

const (
	maxNamesakes = 1024 // names and rules that a census knows
	maxGroups    = 64   // siblings of one name and rule that a census knows
)

// allLimiters is the census of this process.
var allLimiters = census{known: map[limiterID]*namesakes{}}

// siblingsOf returns the siblings of a limiter, which they become part of.
func (c *census) siblingsOf(id limiterID, store Store) *siblings {
	own := &siblings{store: store}
	if !reflect.ValueOf(store).Comparable() {
		return own
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.namesakes(id)
	if n == nil {
		return own
	}
	alive, known := n.groups[:0], false
	for _, group := range n.groups {
		s := group.Value()
		if s == nil {
			continue
		}
		alive = append(alive, group)
		if s.store == store {
			own, known = s, true
		}
	}
	clear(n.groups[len(alive):])
	n.groups = alive
	if !known && len(n.groups) < maxGroups {
		n.groups = append(n.groups, weak.Make(own))
	}
	return own
}

// namesakes returns the namesakes of a limiter, or nil if the census is full. c.mu must
// be held.
func (c *census) namesakes(id limiterID) *namesakes {
	n := c.known[id]
	if n == nil && len(c.known) >= maxNamesakes {
		c.forget()
	}
	if n == nil && len(c.known) < maxNamesakes {
		n = new(namesakes)
		c.known[id] = n
	}
	return n
}

// forget removes the names of which no limiter is left. c.mu must be held.
func (c *census) forget() {
	for id, n := range c.known {
		left := false
		for _, group := range n.groups {
			left = left || group.Value() != nil
		}
		if !left {
			delete(c.known, id)
		}
	}
}

const (
	manyUsed = 100         // so many limiters of a name, used as soon as made in a minute, are one per request
	soon     = time.Second // after which a limiter was not made for the request that it decides first
)

// noteUse notes that a limiter that was made at made decides its first request now. It
// reports whether it is one of many, once for each name and rule.
func (c *census) noteUse(id limiterID, made, now time.Time) bool {
	if now.Sub(made) > soon {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.known[id]
	if n == nil || n.said {
		return false
	}
	if passed := now.Sub(n.since); passed < 0 || passed > time.Minute {
		n.since, n.used = now, 0
	}
	n.used++
	n.said = n.used >= manyUsed
	return n.said
}
