package core

import (
	"runtime"
	"strconv"
	"testing"
)

// immovable is a store that cannot be used.
type immovable struct{ Store }

// TestCensusBounded: a census knows a bounded number of names and of stores of a name,
// and forgets those of which nothing is left.
func TestCensusBounded(t *testing.T) {
	c := census{known: map[limiterID]*namesakes{}}
	var kept []*siblings
	for i := range 2 * maxNamesakes {
		kept = append(kept, c.siblingsOf(limiterID{name: strconv.Itoa(i)}, new(immovable)))
	}
	for range 2 * maxGroups {
		kept = append(kept, c.siblingsOf(limiterID{name: "0"}, new(immovable)))
	}
	if n, groups := len(c.known), len(c.known[limiterID{name: "0"}].groups); n != maxNamesakes || groups != maxGroups {
		t.Errorf("it knows %d names, and %d stores of one", n, groups)
	}
	runtime.KeepAlive(kept)
	kept = nil
	for range 10 {
		runtime.GC()
		c.siblingsOf(limiterID{name: "new"}, new(immovable))
		if len(c.known) == 1 {
			return
		}
	}
	t.Errorf("it knows %d names, of which all but one are gone", len(c.known))
}

// TestCountsBounded: siblings remember the numbers of a bounded number of limits.
func TestCountsBounded(t *testing.T) {
	var s siblings
	for i := range 2 * maxCounts {
		s.note([]Limit{PerMinute(1).Named(strconv.Itoa(i))})
	}
	if len(s.requests) != maxCounts {
		t.Errorf("%d numbers, want %d", len(s.requests), maxCounts)
	}
	if differs, other := s.note([]Limit{PerMinute(2).Named("0")}); differs == nil || other != 1 {
		t.Errorf("%v differs from %d", differs, other)
	}
}
