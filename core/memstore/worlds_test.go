//go:build !race && !short

package memstore

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/model/statespace"
	"github.com/sashlimit/sash/core/internal/window"
)

// memory is what a store of one shard holds of some clients, and what they have used by the definition.
type memory struct {
	clock, now int64
	slots      []slot
	sketch     *sketch
	clients    []statespace.Client
}

// world is a store whose sketch has one cell, and some clients under one limit. Any may be evicted at any time.
type world struct {
	limit        statespace.Limit
	rule         statespace.Rule
	store        *Store
	counts       *ledger
	other        *ledger // of the same counts with a unit more, where they are of a bucket
	keys         []string
	fingerprints []uint16 // of the keys, in the cell
	crowd        bool     // others fill the cell
	clock        int64
}

func (w *world) fingerprint(key string) uint16 {
	k := newSketch(cellBytes)
	k.part[0] = 1
	_, _, fingerprint := k.locate(0, w.store.hash(key), w.counts.limits[0].ident)
	return fingerprint
}

// load makes the store hold a state.
func (w *world) load(m memory) *shard {
	sh := &w.store.shards[0]
	w.clock, sh.now, sh.decisions, sh.due, sh.sweepNext = m.clock, m.now, 0, 0, 0
	for sh.n > 0 {
		sh.forget(sh.n - 1)
	}
	if !sh.grow(need{slots: len(m.slots)}) {
		panic("there is no room")
	}
	for i := range m.slots {
		s := sh.insert(m.slots[i].hash, m.slots[i].ident, m.slots[i].info)
		s.count = m.slots[i].count.Clone()
		sh.resizeRing(0, ringBytes(&s.count))
	}
	sh.sketch = m.sketch.clone()
	return sh
}

// save returns what the store holds.
func (w *world) save(m memory) memory {
	sh := &w.store.shards[0]
	m.clock, m.now, m.sketch, m.slots = w.clock, sh.now, sh.sketch.clone(), nil
	for i := range sh.n {
		s := *sh.slot(i)
		s.count = s.count.Clone()
		m.slots = append(m.slots, s)
	}
	m.clients = slices.Clone(m.clients)
	return m
}

func (k *sketch) clone() *sketch {
	if k == nil {
		return nil
	}
	copied := *k
	copied.pages = [][]cell{slices.Clone(k.pages[0])}
	return &copied
}

// explore goes through all histories.
func (w *world) explore() (statespace.Stats, error) {
	began := w.limit.W * ((w.limit.W + 59) / 60) * 1_000_000
	start := memory{clock: began, now: began}
	for range w.keys {
		start.clients = append(start.clients, make(statespace.Client, 1))
	}
	type step = statespace.Step[memory]
	return statespace.Explore(start, w.key, func(some []memory) (steps [][]step, wrong int, err error) {
		for i, m := range some {
			var next []step
			for _, do := range w.verbs(m) {
				w.load(m)
				to := m
				to.clients = slices.Clone(m.clients)
				if err := do.run(&to); err != nil {
					return nil, i, fmt.Errorf("%s: %w", do.name, err)
				}
				next = append(next, step{Name: do.name, To: w.save(to)})
			}
			steps = append(steps, next)
		}
		return steps, 0, nil
	})
}

// verb is something that may happen to the store, which is loaded.
type verb struct {
	name string
	run  func(m *memory) error
}

func (w *world) verbs(m memory) (all []verb) {
	tick := max(1, (w.limit.W+3)/4)
	if w.limit.Algorithm != core.CoarseLog {
		tick = 1
	}
	do := func(name string, run func(m *memory) error) { all = append(all, verb{name, run}) }
	do("+", func(*memory) error { w.clock += tick; w.store.locked(&w.store.shards[0]); return nil })
	if m.clock > m.now-tick {
		do("-", func(*memory) error { w.clock -= tick; return nil })
	}
	sh := w.load(m)
	do("sweep", func(*memory) error { sh.sweep(w.store.locked(sh)); return nil })
	if w.crowd {
		do("others", func(*memory) error { w.others(sh, w.store.locked(sh)); return nil })
	}
	for i, key := range w.keys {
		do("reset "+key, func(m *memory) error {
			m.clients[i] = make(statespace.Client, 1)
			return w.counts.Reset(context.Background(), key)
		})
		do("evict "+key, func(*memory) error { w.evict(sh, key); return nil })
		do("unknown "+key, func(m *memory) error { return w.unknown(m, i) })
		for cost := range min(w.limit.N, 2) {
			name := fmt.Sprint("take ", cost+1, " ", key)
			do(name, func(m *memory) error { return w.take(m, i, cost+1, statespace.Take) })
		}
		do("peek 1 "+key, func(m *memory) error { return w.take(m, i, 1, statespace.Peek) })
		held := int64(0)
		for _, u := range m.clients[i][0] {
			held += u.N
			for units := range min(u.N, 2) {
				name, by := fmt.Sprint("return ", units+1, " ", key), w.byOther
				if w.other == nil || u.Limit == w.limit {
					by = func(do func() error) error { return do() }
				}
				do(name, func(m *memory) error {
					return by(func() error { return w.giveBack(m, i, u.At, u.N, units+1) })
				})
			}
		}
		if w.other != nil {
			do("take 1 by another limit "+key, func(m *memory) error {
				return w.byOther(func() error { return w.take(m, i, 1, statespace.Take) })
			})
		}
		most := w.limit.N
		if w.limit.Algorithm == core.Bucket {
			most-- // a debt is not kept where a client is evicted
		}
		if uses, _ := w.counts.Usage(context.Background(), key); held <= w.limit.N && uses[0].Used <= most {
			do("charge 1 "+key, func(m *memory) error { return w.take(m, i, 1, statespace.Charge) })
		}
	}
	return all
}

// byOther does something by the other ledger.
func (w *world) byOther(do func() error) error {
	limit, rule, counts := w.limit, w.rule, w.counts
	defer func() { w.limit, w.rule, w.counts = limit, rule, counts }()
	w.limit.N++
	w.rule, w.counts = statespace.Rule{Limits: []statespace.Limit{w.limit}}, w.other
	return do()
}

// others fills the cell with clients that have used more than ours can.
func (w *world) others(sh *shard, now int64) {
	for i := range uint64(cellEntries) {
		sh.record(&w.counts.limits[0].info, hash((i+1)<<32), 0, window.EvictedCount{Newer: 100}, now)
	}
}

func (w *world) evict(sh *shard, key string) {
	now := w.store.locked(sh)
	if s := sh.find(w.store.hash(key), w.counts.limits[0].ident); s != nil {
		sh.evict(sh.number(s), now)
	}
}

// exact reports whether the store knows what a client has counted, and not only how much at most.
func (w *world) exact(i int) bool {
	sh, l := &w.store.shards[0], &w.counts.limits[0]
	h := w.store.hash(w.keys[i])
	if s := sh.find(h, l.ident); s != nil {
		return !s.is(overrides)
	}
	return sh.sketch.estimate(&l.info, h, l.ident, w.store.locked(sh)).IsZero()
}

// ask asks the store as it is.
func (w *world) ask(i int, cost int64, v statespace.Verb) (statespace.Answer, error) {
	ask := core.Ask{Key: w.keys[i], Cost: cost, Peek: v == statespace.Peek}
	if v == statespace.Charge {
		ask.Override = &core.Override{Charge: true}
	}
	w.store.shards[0].decisions = 0 // no sweep, which is a step of its own
	d := w.counts.Take(context.Background(), ask)
	return statespace.Answer{
		Admitted: d.Allowed, Remaining: d.Remaining,
		ResetAfter: d.ResetAfter.Microseconds(), RetryAfter: d.RetryAfter.Microseconds(),
	}, d.Err
}

// judge returns an error if an answer to a client is wrong: another than by the definition where the store has
// forgotten nothing, and else more than is left.
func (w *world) judge(exact bool, got, want statespace.Answer) error {
	switch {
	case exact && got != want, got.Admitted && (!want.Admitted || got.Remaining > want.Remaining):
		return fmt.Errorf("got %+v, want %+v; exact: %v", got, want, exact)
	case !got.Admitted && (got.RetryAfter < 1 || got.RetryAfter > 2*w.limit.W+2*w.counts.limits[0].info.Slot()):
		return fmt.Errorf("refused for %d: %+v", got.RetryAfter, got)
	}
	return nil
}

func (w *world) take(m *memory, i int, cost int64, v statespace.Verb) error {
	exact := w.exact(i)
	now := w.store.locked(&w.store.shards[0])
	want, after, _ := w.rule.Ask(m.clients[i], now, cost, v)
	got, err := w.ask(i, cost, v)
	if err == nil {
		err = w.judge(exact, got, want)
	}
	if err == nil && v == statespace.Peek {
		err = w.usage(i)
	}
	switch {
	case err != nil:
		return err
	case got.Admitted && v != statespace.Peek:
		m.clients[i] = after
	case !got.Admitted:
		return w.comesBack(*m, i, cost, now+got.RetryAfter)
	}
	return nil
}

// usage returns an error if Usage says something else of a client than a decision.
func (w *world) usage(i int) error {
	look, _ := w.ask(i, 0, statespace.Peek)
	uses, err := w.counts.Usage(context.Background(), w.keys[i])
	left := max(0, w.limit.N-uses[0].Used)
	if err != nil || left != look.Remaining || uses[0].ResetAfter.Microseconds() != look.ResetAfter {
		return fmt.Errorf("Usage says %+v, %v, and a decision %+v", uses[0], err, look)
	}
	return nil
}

// comesBack returns an error if a client that was refused is refused again when it was told to come back.
func (w *world) comesBack(m memory, i int, cost, at int64) error {
	refused := w.save(m)
	w.clock = at
	if again, err := w.ask(i, cost, statespace.Peek); err != nil || !again.Admitted {
		return fmt.Errorf("refused at the time that was told: %+v, %v", again, err)
	}
	w.load(refused)
	return nil
}

// unknown is a request of a client that the shard does not know, in a flood: it is counted in the sketch alone.
func (w *world) unknown(m *memory, i int) error {
	sh := &w.store.shards[0]
	r := request{hash: w.store.hash(w.keys[i]), now: w.store.locked(sh), cost: 1}
	all := make([]clientState, 1)
	if w.counts.lookup(sh, &r, all); !isNewKey(all) {
		return nil
	}
	exact := w.exact(i)
	want, after, _ := w.rule.Ask(m.clients[i], r.now, 1, statespace.Take)
	v := w.counts.limits[0].decide(&all[0], &r)
	if v.Admitted {
		w.counts.record(sh, &r, all)
		m.clients[i] = after
	}
	return w.judge(exact, statespace.Answer(v), want)
}

func (w *world) giveBack(m *memory, i int, at, cost, units int64) error {
	exact := w.exact(i)
	now := w.store.locked(&w.store.shards[0])
	want, _ := w.rule.Return(m.clients[i], now, at, cost, units)
	back := core.Refund{Key: w.keys[i], Cost: cost, At: time.UnixMicro(at), Units: units}
	got, err := w.counts.Return(context.Background(), back)
	if w.limit.Algorithm == core.Bucket && !exact { // it finds units without their times, so among too many
		got = min(got, want)
	}
	switch {
	case err != nil || got > want || exact && got != want:
		return fmt.Errorf("%d units count no more, want %d, %v; exact: %v", got, want, err, exact)
	case got > 0:
		_, m.clients[i] = w.rule.Return(m.clients[i], now, at, cost, got)
	}
	return nil
}

// key tells states apart, but for the order of the clients. Counts are told apart by what they answer until nothing
// counts: by which numbers they do it, TestSmallWorlds in window goes through.
func (w *world) key(m memory) string {
	b := &w.counts.limits[0].info
	slot := b.Slot()
	age := w.limit.W + slot
	if a := w.limit.Algorithm; a == core.SlidingCounter || a == core.Bucket {
		age = 2 * w.limit.W
	}
	var key []byte
	add := func(numbers ...int64) {
		for _, n := range numbers {
			key = binary.AppendVarint(key, n)
		}
	}
	one := cell{}
	if k := m.sketch; k != nil {
		one = k.pages[0][0]
		one.advance(max(one.epoch, b.EpochAt(m.now)))
	}
	var clients []string
	for i, k := range w.keys {
		past := slices.Clone(m.clients[i][0])
		if len(past) > 0 {
			past[0].Elapsed = min(past[0].Elapsed, 4*age)
		}
		key = statespace.Client{past}.AppendKey(nil, m.now, age)
		for j := range m.slots {
			if s := &m.slots[j]; s.hash == w.store.hash(k) {
				past := s.count.Summarize(&b.Bound, m.now)
				add(int64(s.info), int64(s.count.Words()), past.Older, past.Newer)
				for t := range age {
					unlimited := b.Limit
					unlimited.Unlimited = true
					add(s.count.Decide(unlimited, m.now+t, m.now+t, 0).Units())
				}
			}
		}
		add(int64(slices.Index(one.fingerprints[:], w.fingerprints[i])))
		clients = append(clients, string(key))
	}
	slices.Sort(clients) // which client has which counts makes no difference
	key = nil
	for _, client := range clients {
		add(int64(len(client)))
		key = append(key, client...)
	}
	add(m.clock-m.now, m.now%b.Span)
	if k := m.sketch; k != nil {
		add(int64(one.others.older), int64(one.others.newer), max(k.until-m.now, 0))
		for i, fingerprint := range one.fingerprints {
			if slices.Contains(w.fingerprints, fingerprint) {
				fingerprint = 0
			}
			add(int64(fingerprint), int64(one.counts[i].older), int64(one.counts[i].newer))
		}
	}
	return string(key)
}

// smallWorld is a world to go through: a limit, a window in ticks, some clients.
type smallWorld struct {
	algorithm    core.Algorithm
	n, ticks     int64
	clients      int
	alike, crowd bool // clients share an entry of the cell; others fill it
}

func (c smallWorld) make(t *testing.T) *world {
	l := statespace.Limit{N: c.n, W: c.ticks, Algorithm: c.algorithm}
	if c.algorithm == core.CoarseLog {
		l.W = 62 * c.ticks
	}
	w := &world{limit: l, rule: statespace.Rule{Limits: []statespace.Limit{l}}, crowd: c.crowd}
	w.store = New(WithMaxBytes(bytesPerShard), WithClock(func() time.Time { return time.UnixMicro(w.clock) }))
	w.store.sketchBytes = cellBytes
	limit := core.Limit{Name: "l", Requests: l.N, Window: time.Duration(l.W) * time.Microsecond, Algorithm: l.Algorithm}
	w.counts = bind(t, w.store, limit)
	if l.Algorithm == core.Bucket {
		limit.Requests++
		w.other = bind(t, w.store, limit)
	}
	for i := 0; len(w.keys) < c.clients; i++ {
		key := fmt.Sprint(i)
		f := w.fingerprint(key)
		if len(w.keys) == 0 || slices.Contains(w.fingerprints, f) == c.alike {
			w.keys, w.fingerprints = append(w.keys, key), append(w.fingerprints, f)
		}
	}
	return w
}

func smallWorlds() (all []smallWorld) {
	for _, a := range core.Algorithms() {
		all = append(all, smallWorld{a, 1, 1, 1, false, false})
		if a != core.CoarseLog {
			n := int64(2)
			if a == core.Bucket { // with other numbers it has too many states
				n = 1
			}
			all = append(all, smallWorld{a, 2, 1, 1, false, true}, smallWorld{a, n, 2, 1, false, false},
				smallWorld{a, 1, 1, 2, true, false})
		}
		if flag.Lookup("long").Value.String() != "true" {
			continue
		}
		if a == core.CoarseLog {
			all = append(all, smallWorld{a, 2, 1, 1, false, true}, smallWorld{a, 1, 1, 2, true, false})
			continue
		}
		uneven := smallWorld{a, 3, 4, 1, false, false}
		if a == core.Bucket {
			uneven.n, uneven.ticks = 2, 2
		}
		all = append(all, uneven, smallWorld{a, 3, 1, 1, false, true}, smallWorld{a, 1, 1, 2, false, false},
			smallWorld{a, 1, 1, 2, true, true}, smallWorld{a, 1, 1, 3, true, false})
		if a != core.Bucket {
			all = append(all, smallWorld{a, 2, 2, 2, true, false})
		}
	}
	return all
}

// TestSmallWorlds: in every history of a store that evicts, no client is above its limit, and where nothing is
// forgotten each answer is that of the definition.
func TestSmallWorlds(t *testing.T) {
	var seen statespace.Stats
	for _, c := range smallWorlds() {
		began := time.Now()
		one, err := c.make(t).explore()
		if err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		t.Logf("%+v: %v in %.1f s", c, one, time.Since(began).Seconds())
		seen.Add(one)
	}
	t.Logf("proved: memstore: all histories of %d worlds: %v", len(smallWorlds()), seen)
}

// TestSmallWorldsFindMutants: a store that counts otherwise than by the definition is found out.
func TestSmallWorldsFindMutants(t *testing.T) {
	for _, a := range core.Algorithms() {
		for _, by := range []int64{-1, 1} {
			w := smallWorld{a, 2, 1, 1, false, false}.make(t)
			w.rule.Limits = []statespace.Limit{{N: 2 + by, W: w.limit.W, Algorithm: a}}
			if _, err := w.explore(); err == nil {
				t.Errorf("%v: a limit of %d is not found out", a, 2-by)
			}
		}
	}
	t.Logf("proved: memstore: %d mutants of %[1]d were found out", 2*len(core.Algorithms()))
}
