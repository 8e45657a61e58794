package memstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// midday is a whole number of days after the epoch, so of most windows.
var midday = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// standing returns a store whose clock stands still, and a rule of it.
func standing(t *testing.T, size int64, limits ...core.Limit) (*Store, *ledger) {
	t.Helper()
	s := New(WithMaxBytes(size), WithClock(func() time.Time { return time.UnixMicro(midday) }))
	return s, bind(t, s, limits...)
}

func bind(t testing.TB, s *Store, limits ...core.Limit) *ledger {
	t.Helper()
	bound, err := s.Bind(core.Binding{Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return bound.(*ledger)
}

// admit makes a request, which must be admitted.
func (c *ledger) admit(t *testing.T, key string, cost int64) {
	t.Helper()
	if d := c.Take(t.Context(), core.Ask{Key: key, Cost: cost}); d.Err != nil || !d.Allowed {
		t.Fatalf("%+v", d)
	}
}

// usedSlot is a slot of a client who has used some units of a limit.
type usedSlot struct {
	client uint64
	limit  int
	units  int64
	flags  uint32
}

// with makes a shard hold such slots alone.
func (sh *shard) with(c *ledger, slots []usedSlot) {
	for sh.n > 0 {
		sh.forget(sh.n - 1)
	}
	sh.grow(need{slots: len(slots)})
	for _, u := range slots {
		l := &c.limits[u.limit]
		s := sh.insert(hash(u.client), l.ident, l.infoNumber)
		s.mark(u.flags)
		if u.units > 0 {
			s.count.Add(l.info.Limit, midday, u.units)
		}
	}
}

// TestLeastUsed: the slot to evict is the one that has used the smallest part of its limit, wherever eviction looks
// first. It is none of the client's own.
func TestLeastUsed(t *testing.T) {
	const big, few, another = 0, 1, 2 // limits, of which the client decides by the first two
	var limits []core.Limit
	for _, n := range []int64{1000, 4, 9} {
		limits = append(limits, core.PerDay(n).Named(fmt.Sprint(n)).Using(core.SlidingCounter))
	}
	s, all := standing(t, bytesPerShard, limits...)
	own := &ledger{store: s, limits: all.limits[:2]}
	sh := &s.shards[0]
	for _, c := range []struct {
		what  string
		slots []usedSlot
		want  int
	}{
		{"none", nil, -1},
		{"5 of 1000", []usedSlot{{1, big, 5, 0}, {2, few, 2, 0}, {3, few, 1, 0}}, 0},
		{"1 of 4", []usedSlot{{1, few, 2, 0}, {2, big, 600, 0}, {3, few, 1, 0}}, 2},
		{"a part that a Reset has not made", []usedSlot{{1, few, 0, overrides | wasReset}, {2, few, 3, 0}}, 1},
		{"nothing left", []usedSlot{{1, big, 1, 0}, {2, few, 0, overrides}, {3, big, 1, 0}}, 1},
		{"another's", []usedSlot{{9, few, 0, 0}, {1, few, 4, 0}, {9, big, 0, 0}}, 1},
		{"the same client's by another rule", []usedSlot{{1, few, 1, 0}, {9, another, 1, 0}}, 1},
		{"all the client's own", []usedSlot{{9, few, 0, 0}, {9, big, 0, 0}}, -1},
	} {
		sh.with(all, c.slots)
		for next := range len(c.slots) + 1 {
			sh.evictNext = next
			if got := sh.leastUsed(own, hash(9), midday, sampleSize); got != c.want {
				t.Errorf("%s, from slot %d: got %d, want %d", c.what, next, got, c.want)
			}
		}
	}
}

// TestNearlyOver: a slot goes that counts nothing any more, before one whose last unit still weighs something.
func TestNearlyOver(t *testing.T) {
	s, c := standing(t, bytesPerShard, core.PerDay(4).Using(core.SlidingCounter))
	sh := &s.shards[0]
	sh.with(c, []usedSlot{{1, 0, 0, 0}, {2, 0, 0, 0}})
	sh.slot(0).count.Add(c.limits[0].info.Limit, midday-1, 1)
	for next := range 2 {
		sh.evictNext = next
		if got := sh.leastUsed(c, hash(9), midday+1, sampleSize); got != 1 {
			t.Errorf("from slot %d: got %d, want 1", next, got)
		}
	}
}

// TestSlotHasTheLatestInfo: a slot that two limits share has the limitInfo of the latest request.
func TestSlotHasTheLatestInfo(t *testing.T) {
	s, ten := standing(t, bytesPerShard, core.PerDay(10).Named("day").Using(core.SlidingCounter))
	few := bind(t, s, core.PerDay(3).Named("day").Using(core.SlidingCounter))
	for i, c := range []*ledger{ten, few, ten, ten, few} {
		if err := c.Take(t.Context(), core.Ask{Key: "k", Cost: 1, Peek: i > 2}).Err; err != nil {
			t.Fatal(err)
		}
		if got := s.shards[0].slot(0).infoNumber(); got != c.limits[0].infoNumber {
			t.Errorf("question %d: info %d, want %d", i, got, c.limits[0].infoNumber)
		}
	}
}

// TestRingsToTheByte: a ring is short up to a length and long beyond, and what it grows by is bounded to the byte.
func TestRingsToTheByte(t *testing.T) {
	s, c := standing(t, bytesPerShard, core.PerDay(1000))
	l, r := &c.limits[0], &request{hash: s.hash("k"), now: midday, cost: 1}
	for range 300 {
		k := clientState{slot: s.shards[0].find(r.hash, l.ident)}
		ring, growth := k.growth(&l.info, r)
		if growth > 0 && k.slot != nil {
			if want := ringBound(k.slot.count.Prepare(l.info.Limit, midday, 1)); ring+growth != want {
				t.Errorf("a ring of %d bytes is to grow by %d, want to %d", ring, growth, want)
			}
			s.largeRing = ring + growth
		}
		c.admit(t, "k", 1)
		s.Audit(t)
	}
}

// TestRoomOfAChunk: where a ring is to grow in a full shard, as many clients go as a chunk holds, and a Reset takes the
// one slot that is free.
func TestRoomOfAChunk(t *testing.T) {
	s, c := standing(t, bytesPerShard, core.PerDay(10).Using(core.SlidingCounter))
	sh, r := &s.shards[0], &request{hash: s.hash("k"), now: midday}
	fill := sh.fill()
	if !sh.makeRoom(c, r, need{rings: layoutOf(chunkSlots).bytes()}) || sh.n != fill-chunkSlots {
		t.Errorf("%d clients went, want those of a chunk, %d", fill-sh.n, chunkSlots)
	}
	sh.record(&c.limits[0].info, r.hash, 0, window.EvictedCount{Newer: 10}, midday)
	sh.reserve(s.common.Load() - max(0, sh.own-s.share) + max(0, s.share-sh.own)) // all that is left
	sh.forget(sh.n - 1)
	before := sh.events.evictions
	if err := c.Reset(t.Context(), "k"); err != nil || sh.events.evictions != before || sh.free() != 0 {
		t.Errorf("%v: %d clients went for a Reset, and %d slots are free", err, sh.events.evictions-before, sh.free())
	}
}

// TestRulesTakeFromALongLog: room for a rule is made by the client whose log has borrowed, and by no other.
func TestRulesTakeFromALongLog(t *testing.T) {
	s, c := standing(t, bytesPerShard, core.PerDay(1_000_000))
	sh := &s.shards[0]
	for i := range 20 {
		c.admit(t, fmt.Sprint(i), 1)
	}
	for sh.large < s.max/5 {
		c.admit(t, "k", 1)
	}
	s.Audit(t)
	s.borrow(s.common.Load())
	s.share = sh.own // all of it is in use
	if bind(t, s, core.PerHour(7)); sh.n != 20 || sh.large != 0 {
		t.Errorf("%d clients are left, want 20, with long rings of %d bytes", sh.n, sh.large)
	}
}

// TestResetWithoutRoom: a Reset of an evicted client takes a slot, for which there must be room, and which no sweep
// removes.
func TestResetWithoutRoom(t *testing.T) {
	s, c := standing(t, bytesPerShard, core.PerDay(10))
	sh := &s.shards[0]
	sh.record(&c.limits[0].info, s.hash("k"), c.limits[0].ident, window.EvictedCount{Newer: 10}, midday)
	share, common := s.share, s.common.Load()
	s.share = 0
	s.common.Store(0)
	if err := c.Reset(t.Context(), "k"); !errors.Is(err, core.ErrStoreFull) {
		t.Errorf("got %v, want ErrStoreFull", err)
	}
	s.share = share
	s.common.Store(common)
	if err := c.Reset(t.Context(), "k"); err != nil || sh.n != 1 {
		t.Errorf("got %v and %d slots", err, sh.n)
	}
	sh.sweep(midday)
	c.admit(t, "k", 10)
}

// TestLateReset: a context that has ended does not stop a Reset: another store may have used up the limiter's timeout.
func TestLateReset(t *testing.T) {
	_, c := standing(t, bytesPerShard, core.PerDay(1))
	late, cancel := context.WithTimeoutCause(t.Context(), 0, core.ErrTimeout)
	defer cancel()
	for range 2 {
		c.admit(t, "k", 1)
		if err := c.Reset(late, "k"); err != nil {
			t.Error(err)
		}
	}
}

// TestReturnBesideTheSketch: what a client counts in its new slot can be given back, of a log, beside what its old one
// has left in the sketch.
func TestReturnBesideTheSketch(t *testing.T) {
	for _, a := range core.Algorithms() {
		s, c := standing(t, bytesPerShard, core.PerDay(10).Using(a))
		for range 2 {
			c.admit(t, "k", 3)
			if sh := &s.shards[0]; sh.sketch == nil {
				sh.evict(0, midday)
			}
		}
		want := int64(3)
		if a == core.SlidingCounter || a == core.Bucket {
			want = 0 // it has all units, or those of a fixed window, in one number
		}
		back := core.Refund{Key: "k", Cost: 3, At: time.UnixMicro(midday), Units: 3}
		if got, err := c.Return(t.Context(), back); got != want || err != nil {
			t.Errorf("%v: %d given back, %v, want %d", a, got, err, want)
		}
	}
}

// TestReturnOfTheEvicted: nothing is given back that is not in the slots of all limits.
func TestReturnOfTheEvicted(t *testing.T) {
	s, c := standing(t, bytesPerShard, core.PerDay(10), core.PerHour(10))
	c.admit(t, "k", 3)
	sh, back := &s.shards[0], core.Refund{Key: "k", Cost: 3, At: time.UnixMicro(midday), Units: 3}
	for i := range c.limits {
		sh.evict(sh.number(sh.find(s.hash("k"), c.limits[i].ident)), midday)
		if got, err := c.Return(t.Context(), back); got != 0 || err != nil {
			t.Errorf("%d slots evicted: %d given back, %v, want 0", i+1, got, err)
		}
	}
}

// TestLeastUsedOfASample: it is the least of sampleSize slots in a row, which begin with the second of the row before,
// or the first that is not the client's own.
func TestLeastUsedOfASample(t *testing.T) {
	var limits []core.Limit
	var falling, mine []usedSlot
	for i := range 20 {
		limits = append(limits, core.PerDay(1000).Named(fmt.Sprint(i)).Using(core.SlidingCounter))
		falling = append(falling, usedSlot{uint64(i), 0, int64(100 - i), 0})
		mine = append(mine, usedSlot{100, i, 1, 0})
	}
	mine[19].client = 1
	s, c := standing(t, bytesPerShard, limits...)
	sh := &s.shards[0]
	for _, want := range []int{16, 17, 18, 19, 19} {
		if sh.n == 0 {
			sh.with(c, falling)
		}
		if got := sh.leastUsed(c, hash(100), midday, sampleSize); got != want {
			t.Errorf("got slot %d, want %d", got, want)
		}
	}
	sh.evictNext = 0
	sh.with(c, mine)
	if got := sh.leastUsed(c, hash(100), midday, sampleSize); got != 19 {
		t.Errorf("got slot %d, want the only one of another client, 19", got)
	}
}

// TestFlooded: a shard is flooded when most of its last decisions were for new keys, as long as all slots count
// something.
func TestFlooded(t *testing.T) {
	s, c := standing(t, bytesPerShard, core.PerDay(10).Using(core.SlidingCounter))
	sh, r := &s.shards[0], &request{hash: hash(100), now: midday}
	for _, of := range []struct {
		newKeys uint8 // of eight decisions
		least   uint8 // recent strangers in the long run
		most    uint8
	}{{0, 0, 7}, {4, 32, 39}, {8, 64, 71}, {5, 40, 47}, {6, 48, 55}, {0, 0, 7}} {
		for range 40 {
			sh.newKeys += of.newKeys
			for range 8 {
				sh.tick(midday)
			}
		}
		if sh.recentNewKeys < of.least || sh.recentNewKeys > of.most || sh.newKeys != 0 {
			t.Errorf("%d new keys of 8: got %d recent, want %d to %d", of.newKeys, sh.recentNewKeys, of.least, of.most)
		}
	}
	for _, k := range []clientState{{}, {slot: &slot{}}, {estimate: estimate{found: true}}} {
		if got := isNewKey([]clientState{{}, k}); got != (k == clientState{}) {
			t.Errorf("%+v: isNewKey %v", k, got)
		}
	}
	counting := []usedSlot{{1, 0, 1, 0}, {2, 0, 2, 0}, {3, 0, 1, 0}}
	for _, of := range []struct {
		what   string
		recent uint8
		slots  []usedSlot
		want   bool
	}{
		{"a flood", floodThreshold, counting, true},
		{"nearly a flood", floodThreshold - 1, counting, false},
		{"no slots", floodThreshold, nil, false},
		{"a slot that counts nothing", floodThreshold, append(counting, usedSlot{4, 0, 0, 0}), false},
	} {
		sh.with(c, of.slots)
		sh.recentNewKeys, sh.newKeys = of.recent, 0
		for range 5 { // from every slot
			if got := sh.isFlooded(c, r); got != of.want {
				t.Errorf("%s: got %v, want %v", of.what, got, of.want)
			}
		}
		if sh.newKeys != 5 {
			t.Errorf("%s: got %d new keys, want 5", of.what, sh.newKeys)
		}
	}
}

// TestRulesTakeFromWhoHasBorrowed: room for a rule is made by clients of shards that have borrowed, by no more of them
// than must be; a shard that lives on its own share keeps its clients.
func TestRulesTakeFromWhoHasBorrowed(t *testing.T) {
	s, c := standing(t, 9<<18, core.PerDay(10).Using(core.SlidingCounter))
	modest, greedy := &s.shards[0], &s.shards[len(s.shards)-1]
	s.shards[1].with(c, []usedSlot{{1, 0, 1, 0}})
	modest.with(c, []usedSlot{{1, 0, 1, 0}})
	modest.reserve(s.share - modest.own) // all of its share, and no more
	fill := greedy.fill()
	if s.common.Load() >= layoutOf(chunkSlots).bytes() || greedy.n != fill {
		t.Fatalf("%d bytes are common, %d of %d slots are taken", s.common.Load(), greedy.n, fill)
	}
	rules := int64(0)
	for before := s.common.Load(); (rules+1)*(identBytes+infoBytes) <= before; rules++ {
		bind(t, s, core.PerHour(100+rules).Named(fmt.Sprint(rules)).Using(core.SlidingCounter))
	}
	if greedy.n != fill {
		t.Errorf("%d slots went while bytes were common", fill-greedy.n)
	}
	greedy.evictNext = greedy.n // the next sample begins with the client with the hash 0
	bind(t, s, core.PerHour(7).Named("another").Using(core.SlidingCounter))
	if got := fill - greedy.n; got == 0 || got > chunkSlots/2+1 {
		t.Errorf("%d slots went for a rule, want those of half a chunk, %d", got, chunkSlots/2+1)
	}
	if modest.n != 1 || s.shards[1].n != 1 {
		t.Errorf("%d and %d slots are left where nothing was borrowed, want 1", modest.n, s.shards[1].n)
	}
	if got := s.common.Load(); got < 0 || got > layoutOf(chunkSlots).bytes() {
		t.Errorf("%d bytes are common", got)
	}
}

// fill fills a shard with slots and returns how many there are.
func (sh *shard) fill() int {
	b := (*sh.store.rules.infos.Load())[0]
	for i := uint64(0); sh.grow(need{slots: 1}); i++ {
		sh.insert(hash(i), 0, 0).count.Add(b.Limit, midday, 1)
	}
	return sh.n
}

// TestSlotsThatAreOver: a slot goes with the last unit that it counts, whatever the sketch says of others; but one that
// overrides the sketch stays for as long as that counts.
func TestSlotsThatAreOver(t *testing.T) {
	s, c := standing(t, bytesPerShard, core.PerHour(10))
	s.sketchBytes = cellBytes
	sh, b := &s.shards[0], &c.limits[0].info
	for i := range uint64(cellEntries + 1) { // the least of all is what the sketch says of anybody
		sh.record(b, hash((i+1)<<32), 0, window.EvictedCount{Newer: 5}, midday)
	}
	const hour = 3_600_000_000
	for _, of := range []struct {
		what    string
		slot    usedSlot
		at      int64
		removed bool
	}{
		{"one unit in its window", usedSlot{1, 0, 1, 0}, midday + hour - 1, false},
		{"one unit later", usedSlot{1, 0, 1, 0}, midday + hour, true},
		{"none", usedSlot{1, 0, 0, 0}, midday, true},
		{"none, but it overrides some", usedSlot{1, 0, 0, overrides}, midday, false},
		{"none, but it overrides some of the epoch before", usedSlot{1, 0, 0, overrides}, midday + 2*hour - 1, false},
		{"none, but it overrides what is over", usedSlot{1, 0, 0, overrides | wasReset}, midday + 2*hour, true},
	} {
		sh.with(c, []usedSlot{of.slot})
		if got := sh.clean(0, of.at); got != of.removed || sh.n == 0 != of.removed {
			t.Errorf("%s: removed %v, want %v", of.what, got, of.removed)
		}
	}
	for _, at := range []int64{midday + 3*hour - 2, midday + 3*hour - 1} { // two windows after the end of its epoch
		if sh.sweep(at); (sh.sketch == nil) != (at == midday+3*hour-1) {
			t.Errorf("at %d: the sketch is %p", at, sh.sketch)
		}
	}
}

// TestRingsAreMadeShorter: of a log that was long once, a sweep gives back what it does not need.
func TestRingsAreMadeShorter(t *testing.T) {
	for _, requests := range []int64{200, 2000} { // a short ring and a long one
		s, c := standing(t, bytesPerShard, core.PerHour(10_000))
		now := midday
		s.clock = func() time.Time { now++; return time.UnixMicro(now) }
		for range requests {
			c.admit(t, "k", 1)
		}
		sh := &s.shards[0]
		long := ringBytes(&sh.slot(0).count)
		now += 3_600_000_000
		c.admit(t, "k", 1)
		now += 1_800_000_000 // it might have been about to fill again
		sh.sweep(now)
		if got := ringBytes(&sh.slot(0).count); long < 8*requests || got > long/8 {
			t.Errorf("a ring of %d bytes for %d requests is %d bytes long for one", long, requests, got)
		}
		s.Audit(t)
	}
}
