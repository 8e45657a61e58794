//go:build !race && !short

package window

import (
	"encoding/binary"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/model/statespace"
)

var long = flag.Bool("long", false, "go through larger worlds")

// counted is a Count of a client and what the client has used by the definition.
type counted struct {
	count  Count
	now    int64
	client statespace.Client
}

// world is a client under a limit, whose clock goes on by each of ticks. bend changes what the Count is asked, to see
// that it is found out.
type world struct {
	Limit
	other Limit // of some requests to a bucket
	ticks []int64
	rule  statespace.Rule
	bend  func(l Limit, now, cost int64) (Limit, int64, int64)
}

func newWorld(l Limit, ticks ...int64) *world {
	return &world{
		Limit: l, ticks: ticks,
		rule:  statespace.Rule{Limits: []statespace.Limit{{N: l.N, W: l.W, Algorithm: l.Algorithm}}},
		bend:  func(l Limit, now, cost int64) (Limit, int64, int64) { return l, now, cost },
		other: Limit{N: 5 - l.N, W: l.W + 1, Algorithm: l.Algorithm},
	}
}

// by returns the world with requests by another limit.
func (w *world) by(l Limit) *world {
	o := newWorld(l)
	o.bend = w.bend
	return o
}

// explore goes through all histories, in which charges bring a client to a unit above the limit at most.
func (w *world) explore() (statespace.Stats, error) {
	start := counted{now: w.W * w.Slot() * 1_000_000, client: make(statespace.Client, 1)}
	type steps = [][]statespace.Step[counted]
	return statespace.Explore(start, w.key, func(some []counted) (steps steps, wrong int, err error) {
		for i, s := range some {
			next, err := w.steps(s)
			if err != nil {
				return nil, i, err
			}
			steps = append(steps, next)
		}
		return steps, 0, nil
	})
}

func (w *world) steps(s counted) (next []statespace.Step[counted], err error) {
	add := func(name string, to counted) { next = append(next, statespace.Step[counted]{Name: name, To: to}) }
	for _, tick := range w.ticks {
		to := s
		to.now += tick
		add(fmt.Sprint("+", tick), to)
	}
	for cost := range w.N + 2 {
		for _, verb := range []statespace.Verb{statespace.Take, statespace.Peek, statespace.Charge} {
			if verb == statespace.Charge && cost+max(s.unitsAt(), s.count.Units(w.Limit, s.now)) > w.N+1 {
				continue
			}
			to, err := w.ask(s, cost, verb)
			if err != nil {
				return nil, err
			}
			add(fmt.Sprint(verb, " ", cost), to)
		}
	}
	if w.Algorithm == core.Bucket {
		to, err := w.by(w.other).ask(s, 1, statespace.Take)
		if err != nil {
			return nil, err
		}
		add("take 1 by another limit", to)
	}
	for _, u := range s.client[0] {
		for units := range int64(2) {
			if w.Algorithm == core.Bucket && units >= u.N {
				continue
			}
			by := w
			if u.Limit.W == w.other.W {
				by = w.by(w.other)
			}
			to, err := by.giveBack(s, u.At, u.N, units+1)
			if err != nil {
				return nil, err
			}
			add(fmt.Sprintf("return %d of %d ago", units+1, s.now-u.At), to)
		}
	}
	add("reset", counted{now: s.now, client: make(statespace.Client, 1)})
	return next, nil
}

// unitsAt returns how many units the client has.
func (s counted) unitsAt() (held int64) {
	for _, u := range s.client[0] {
		held += u.N
	}
	return held
}

func (s counted) clone() counted {
	s.count = s.count.Clone()
	return s
}

func (w *world) ask(s counted, cost int64, verb statespace.Verb) (to counted, err error) {
	want, client, _ := w.rule.Ask(s.client, s.now, cost, verb)
	to = s.clone()
	to.client = client
	l, now, units := w.bend(w.Limit, s.now, cost)
	if verb == statespace.Charge {
		l.Unlimited = true
	}
	stamp := max(now, to.count.MinStamp(l))
	v := to.count.Decide(l, now, stamp, units)
	if verb == statespace.Charge {
		v = w.Charged(v)
	}
	if v.RetryAfter == Never {
		v.RetryAfter = statespace.Never
	}
	if got := statespace.Answer(v); got != want {
		return to, fmt.Errorf("%s %d: got %+v, want %+v", verb, cost, got, want)
	}
	if v.Admitted && verb != statespace.Peek && cost > 0 {
		to.count.Prepare(l, now, units)
		to.count.Add(l, stamp, units)
	}
	return to, nil
}

func (w *world) giveBack(s counted, at, cost, units int64) (to counted, err error) {
	want, client := w.rule.Return(s.client, s.now, at, cost, units)
	to = s.clone()
	to.client = client
	l, _, _ := w.bend(w.Limit, s.now, units)
	if got := to.count.Return(l, at, s.now, cost, units); got != want {
		return to, fmt.Errorf("return %d of %d ago: %d count no more, want %d", units, s.now-at, got, want)
	}
	return to, nil
}

// key tells states apart, by all that a Count has: also by where its ring begins.
func (w *world) key(s counted) string {
	c, age := &s.count.log, w.W+w.Slot()
	if w.Algorithm == core.Bucket {
		b := (*bucket)(c).bucket()
		past := slices.Clone(s.client[0])
		most := (s.unitsAt() + 1) * w.other.W // more is not asked for
		if len(past) > 0 {
			past[0].Elapsed = min(past[0].Elapsed, most)
		}
		key := statespace.Client{past}.AppendKey(nil, s.now, 2*age)
		for _, n := range []int64{max(b.At-s.now, -age), b.Owed, b.Fraction, min(b.Elapsed, most)} {
			key = binary.AppendVarint(key, n)
		}
		return string(key)
	}
	if w.Algorithm == core.SlidingCounter {
		age = 2 * w.W
	}
	key, old := s.client.AppendKey(nil, s.now, age), s.now-age
	add := func(numbers ...int64) {
		for _, n := range numbers {
			key = binary.AppendVarint(key, n)
		}
	}
	switch w.Algorithm {
	case core.SlidingCounter:
		last := (*counter)(c).counter()
		add(s.now%w.W, max(last.Index, old/w.W)-s.now/w.W, last.Prev, last.Cur)
		return string(key)
	case core.CoarseLog:
		add(s.now%w.Slot(), int64(c.head), int64(c.entries), int64(c.words), c.first, max(c.last, old)-s.now)
		for i := range c.entries {
			add((*coarse)(c).in(i))
		}
		return string(key)
	}
	add(int64(c.head), int64(c.entries), int64(c.words), int64(c.units))
	for i := range c.entries {
		add(max(c.stamp(i), old)-s.now, c.total(i))
	}
	return string(strconv.AppendBool(key, c.pairs))
}

// smallWorlds are limits to 3 and windows to 4 ticks, which for a core.CoarseLog are of ten slots and a bit.
func smallWorlds() (all []*world) {
	for n := range int64(3) {
		for ticks := range int64(4) {
			for _, kind := range []core.Algorithm{core.SlidingLog, core.SlidingCounter, core.Bucket} {
				if kind != core.Bucket || n+ticks < 3 && ticks < 2 || *long && n+ticks < 4 { // else too many states
					all = append(all, newWorld(Limit{N: n + 1, W: ticks + 1, Algorithm: kind}, 1))
				}
			}
			if n < 2 && ticks < 2 || *long {
				all = append(all, newWorld(Limit{N: n + 1, W: 41 * (ticks + 1), Algorithm: core.CoarseLog}, 41))
			}
		}
	}
	return all
}

// TestSmallWorlds: in every history of a client under a low limit and a short window, each answer is that of the
// definition.
func TestSmallWorlds(t *testing.T) {
	var seen statespace.Stats
	for _, w := range smallWorlds() {
		one, err := w.explore()
		if err != nil {
			t.Errorf("%+v: %v", w.Limit, err)
		}
		t.Logf("%+v: %v", w.Limit, one)
		seen.Add(one)
	}
	t.Logf("proved: package window: all histories of %d worlds: %v", len(smallWorlds()), seen)
}

// TestSmallWorldsFindMutants: what counts otherwise than by the definition is found out.
func TestSmallWorldsFindMutants(t *testing.T) {
	type bend = func(l Limit, now, cost int64) (Limit, int64, int64)
	mutants := map[string]bend{
		"a unit above the limit":  func(l Limit, now, cost int64) (Limit, int64, int64) { l.N++; return l, now, cost },
		"a unit below the limit":  func(l Limit, now, cost int64) (Limit, int64, int64) { l.N--; return l, now, cost },
		"a window that is longer": func(l Limit, now, cost int64) (Limit, int64, int64) { l.W++; return l, now, cost },
		"a clock that is late":    func(l Limit, now, cost int64) (Limit, int64, int64) { return l, now - 1, cost },
		"a cost of 2 taken for 1": func(l Limit, now, cost int64) (Limit, int64, int64) { return l, now, min(cost, 1) },
	}
	for name, bend := range mutants {
		for _, kind := range core.Algorithms() {
			w := newWorld(Limit{N: 2, W: 3, Algorithm: kind}, 1)
			w.bend = bend
			if _, err := w.explore(); err == nil {
				t.Errorf("%v: %s is not found out", kind, name)
			}
		}
	}
	n := len(mutants) * len(core.Algorithms())
	t.Logf("proved: package window: %d of %d mutants were found out", n, n)
}
