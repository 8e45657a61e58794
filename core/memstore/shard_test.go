package memstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// audit counts the bytes of every table anew and looks whether the tables hold
// together. Nobody may use the store meanwhile.
func (s *Store) audit() error {
	total := int64(len(s.shards))*shardBytes + s.rules.bytes
	common := s.max - int64(len(s.shards))*(shardBytes+s.sketchBytes+s.share) - s.rules.bytes
	for number := range s.shards {
		sh := &s.shards[number]
		own, large := int64(len(sh.chunks))*chunkBytes+int64(len(sh.index))*4, int64(0)
		if sh.sketch != nil {
			total += s.sketchBytes
		}
		if sh.n > len(sh.chunks)*chunkSlots || sh.n*8 > len(sh.index)*7 || len(sh.index)&(len(sh.index)-1) != 0 {
			return fmt.Errorf("shard %d: %d slots in %d chunks and an index of %d", number, sh.n, len(sh.chunks), len(sh.index))
		}
		if cap(sh.chunks) >= 4*(len(sh.chunks)+1) {
			return fmt.Errorf("shard %d: a table with room for %d chunks of %d", number, cap(sh.chunks), len(sh.chunks))
		}
		named := 0
		for _, e := range sh.index {
			if e != 0 {
				named++
			}
		}
		if named != sh.n {
			return fmt.Errorf("shard %d: the index names %d slots of %d", number, named, sh.n)
		}
		for i := range len(sh.chunks) * chunkSlots {
			at := sh.slot(i)
			if i >= sh.n {
				if *at != (slot{}) {
					return fmt.Errorf("shard %d: the unused slot %d holds %+v", number, i, *at)
				}
				continue
			}
			if p, got := sh.place(at.hash, at.ident); got != at || sh.named(p) != i {
				return fmt.Errorf("shard %d: slot %d is not found", number, i)
			}
			if len(s.shards) > 1 && s.shard(at.hash) != sh {
				return fmt.Errorf("shard %d: slot %d belongs elsewhere", number, i)
			}
			if words := at.count.Words(); words > 0 {
				if sh.store.rules.of(at).Kind != window.SlidingLog {
					return fmt.Errorf("shard %d: the counter %d has a ring", number, i)
				}
				if room := cap(append([]int64(nil), make([]int64, words)...)); room != words {
					return fmt.Errorf("shard %d: slot %d has a ring of %d with room for %d", number, i, words, room)
				}
				if ring := ringSize(words); ring > s.largeRing {
					large += ring
				} else {
					own += ring
				}
			}
		}
		if sh.own != own || sh.large != large {
			return fmt.Errorf("shard %d: %d bytes and %d for long rings, the tables hold %d and %d",
				number, sh.own, sh.large, own, large)
		}
		total += own + large
		common -= max(0, own-s.share) + large
	}
	if used := s.used.Load(); used != total {
		return fmt.Errorf("Bytes says %d, the tables hold %d", used, total)
	}
	if got := s.common.Load(); got != common || got < 0 {
		return fmt.Errorf("%d bytes are common, want %d", got, common)
	}
	if total > s.max {
		return fmt.Errorf("%d bytes: the bound is %d", total, s.max)
	}
	return nil
}

// TestSizes: what the accounting supposes of the allocator.
func TestSizes(t *testing.T) {
	const words = unsafe.Sizeof(chunk{}) / 8
	if got := cap(append([]*int(nil), make([]*int, words)...)); got != int(words) {
		t.Errorf("the allocator makes %d words of a chunk's %d", got, words)
	}
	store := New()
	store.shards[0].grow(need{slots: 1})
	if at := uintptr(unsafe.Pointer(store.shards[0].slot(0))); at%unsafe.Sizeof(slot{}) != 0 {
		t.Errorf("slots at %#x do not begin with a line of the cache", at)
	}
	if size := unsafe.Sizeof(slot{}); size != 64 {
		t.Errorf("a slot takes %d bytes", size)
	}
	if size := unsafe.Sizeof(bucket{}); size != bucketBytes {
		t.Errorf("a bucket takes %d bytes, want %d", size, bucketBytes)
	}
	if size := unsafe.Sizeof(shard{}); size%64 != 0 {
		t.Errorf("a shard takes %d bytes: a neighbour's lock is in its line of the cache", size)
	}
	log := window.Limit{N: 1 << 20, W: 1, Kind: window.SlidingLog}
	for words := 1; words < 100_000; words += 1 + words/50 {
		var c window.Count
		for c.Words() < words || c.Prepare(log, 0, 1) == 0 {
			c.Add(log, 1, 1)
		}
		foreseen := c.Prepare(log, 0, 1)
		c.Add(log, 1, 1)
		if got, most := ringBytes(&c), ringBound(foreseen); got > most {
			t.Errorf("a ring that was to have %d words takes %d bytes, foreseen were %d", foreseen, got, most)
		}
	}
}

// TestTable holds a shard's table against a Go map: over random insertions and
// removals, among hashes that meet in the index, in the tag, and in the hash.
func TestTable(t *testing.T) {
	type entry struct {
		hash  hash
		ident uint32
	}
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s := New()
		one := window.Limit{N: 1, W: 1 << 20}
		counted := func(s *slot) int64 { return s.count.Decide(one, 0, 0).ResetAfter - one.W } // when its unit was
		number := s.rules.add(one)
		sh := &s.shards[0]
		model := map[entry]int64{}
		var entries []entry
		few := rng.Uint64N(1000) + 3
		for step := range 8_000 {
			e := entry{hash{rng.Uint64N(few) << 30 >> rng.UintN(31), rng.Uint64N(4)}, rng.Uint32N(3)}
			if rng.IntN(3) == 0 { // one that wraps round the end of the index
				e.hash.low = ^uint64(0) - rng.Uint64N(4)
			}
			slot := sh.find(e.hash, e.ident)
			if id, ok := model[e]; ok != (slot != nil) || ok && counted(slot) != id {
				t.Fatalf("step %d: %v is found as %+v, in the map: %v", step, e, slot, ok)
			}
			growing := step/2000%2 == 0
			switch {
			case slot == nil && (growing || rng.IntN(3) == 0):
				if !sh.grow(need{slots: 1}) {
					t.Fatalf("step %d: no room in a store of %d bytes", step, s.Bytes())
				}
				sh.insert(e.hash, e.ident, number).count.Add(one, int64(step), 1)
				model[e] = int64(step)
				entries = append(entries, e)
			case slot == nil && len(entries) > 0: // remove any
				k := rng.IntN(len(entries))
				e = entries[k]
				p, _ := sh.place(e.hash, e.ident)
				entries[k] = entries[len(entries)-1]
				entries = entries[:len(entries)-1]
				sh.forget(sh.named(p))
				delete(model, e)
				if sh.find(e.hash, e.ident) != nil {
					t.Fatalf("step %d: %v is found after its removal", step, e)
				}
			}
			if sh.n != len(model) {
				t.Fatalf("step %d: %d slots, %d in the map", step, sh.n, len(model))
			}
			if step%400 == 0 {
				if err := s.auditTable(sh); err != nil {
					t.Fatalf("step %d: %v", step, err)
				}
				for e, id := range model {
					if slot := sh.find(e.hash, e.ident); slot == nil || counted(slot) != id {
						t.Fatalf("step %d: %v is lost", step, e)
					}
				}
			}
		}
		for len(entries) > 0 {
			e := entries[len(entries)-1]
			entries = entries[:len(entries)-1]
			p, _ := sh.place(e.hash, e.ident)
			sh.forget(sh.named(p))
		}
		if sh.n != 0 || len(sh.chunks) > 1 || len(sh.index) > 2*chunkSlots {
			t.Errorf("an empty shard keeps %d chunks and an index of %d", len(sh.chunks), len(sh.index))
		}
	}
}

// auditTable audits a shard whose hashes were made up.
func (s *Store) auditTable(sh *shard) error {
	alone := New(WithMaxBytes(s.max))
	alone.shards = make([]shard, 1)
	own := &alone.shards[0]
	own.table, own.store, own.own, own.large = sh.table, sh.store, sh.own, sh.large
	alone.used.Store(s.used.Load() - int64(len(s.shards)-1)*shardBytes)
	alone.common.Store(s.common.Load() + int64(len(s.shards)-1)*(shardBytes+s.sketchBytes+s.share))
	return alone.audit()
}

// TestAccounting counts all bytes anew while random rules, costs, resets,
// changed limits and jumps of the clock go on in stores that are mostly full.
func TestAccounting(t *testing.T) {
	for seed, size := range []int64{MinMaxBytes, 256 << 10, 1 << 20, 2 << 20} {
		rng := rand.New(rand.NewPCG(uint64(seed), 2))
		now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		s := New(WithMaxBytes(size), WithClock(func() time.Time { return now }))
		var limiters []*core.Limiter
		for i, limits := range [][]core.Limit{
			{core.PerMinute(1)},
			{core.PerMinute(100)},
			{core.PerMinute(1000).Named("m")},
			{core.PerMinute(50).Named("m")}, // on the counts of the one before
			{core.PerMinute(3).Using(core.SlidingCounter)},
			{core.PerSecond(5), core.PerMinute(10).Using(core.SlidingCounter), core.PerHour(40)},
			{core.PerSecond(1), core.PerMinute(2), core.PerHour(3), core.PerDay(4), core.Per(5, 48*time.Hour)},
			{core.PerDay(100_000)},
		} {
			l, err := core.New(core.Config{
				Name: fmt.Sprint(i - i/3%2), Store: s, Limits: limits, OnStoreError: core.FailClosed,
			})
			if err != nil {
				t.Fatal(err)
			}
			limiters = append(limiters, l)
		}
		clients, full, admitted := 20+int(size/200), 0, 0
		for step := range 25_000 {
			l := limiters[rng.IntN(len(limiters))]
			key := fmt.Sprint(rng.IntN(1 + rng.IntN(clients)))
			switch rng.IntN(40) {
			case 0:
				if err := l.Reset(context.Background(), key); err != nil {
					t.Fatal(err)
				}
			case 1:
				now = now.Add(time.Duration(rng.Int64N(int64(time.Second))))
			case 2:
				l.Peek(context.Background(), key)
			case 3:
				if rng.IntN(100) == 0 {
					now = now.Add(time.Duration(rng.Int64N(int64(30 * time.Hour))))
				}
			default:
				n := int64(1)
				if rng.IntN(3) == 0 {
					n = rng.Int64N(4)
				}
				d := l.AllowN(context.Background(), key, n)
				if d.Err != nil {
					full++
				} else if d.Allowed {
					admitted++
				}
			}
			if s.Bytes() > size {
				t.Fatalf("step %d: %d bytes: the bound is %d", step, s.Bytes(), size)
			}
			if step%250 == 0 {
				if err := s.audit(); err != nil {
					t.Fatalf("%d bytes, step %d: %v", size, step, err)
				}
			}
		}
		if admitted < 1000 {
			t.Errorf("%d bytes: only %d requests were admitted (%d times full)", size, admitted, full)
		}
	}
}

// TestNothingIsLeftOfAFlood: slots that go give chunks, their list and the index
// back, and when nothing in it counts any more, the sketch goes.
func TestNothingIsLeftOfAFlood(t *testing.T) {
	const size = 2 << 20
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	s := New(WithMaxBytes(size), WithClock(func() time.Time { return now }))
	empty := s.Bytes()
	l := core.Must(core.New(core.Config{Store: s, Limits: []core.Limit{core.PerDay(2)}, OnStoreError: core.FailClosed}))
	const clients = size / 40
	for range 2 {
		for i := range clients {
			l.Allow(context.Background(), fmt.Sprint(i))
		}
	}
	if err := s.audit(); err != nil || s.Bytes() < size*9/10 {
		t.Fatalf("after a flood: %d bytes, %v", s.Bytes(), err)
	}
	now = now.Add(4 * 24 * time.Hour)
	for i := range clients {
		l.Peek(context.Background(), fmt.Sprint(i))
		if i%500 == 0 {
			if err := s.audit(); err != nil {
				t.Fatalf("four days and %d requests later: %v", i, err)
			}
		}
	}
	if s.Bytes() > empty+int64(len(s.shards))*2*chunkBytes {
		t.Errorf("%d bytes are left, %d when empty", s.Bytes(), empty)
	}
}

// TestFullToTheByte: a client for which there is a slot, but not the few bytes by
// which the index must grow, takes the place of another.
func TestFullToTheByte(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for keys := 1; keys < 100; keys++ {
		s := New(WithMaxBytes(MinMaxBytes), WithClock(func() time.Time { return now }))
		limits := []core.Limit{core.PerHour(100).Using(core.SlidingCounter)}
		l := core.Must(core.New(core.Config{Store: s, Limits: limits, OnStoreError: core.FailClosed}))
		for k := range keys {
			l.Allow(context.Background(), fmt.Sprint(k))
		}
		s.max -= s.share - s.shards[0].own + s.common.Load()
		s.share = s.shards[0].own
		s.common.Store(0)
		for range 2 { // the second time it has a slot
			if d := l.Allow(context.Background(), "newcomer"); d.Err != nil {
				t.Errorf("beside %d keys: %v", keys, d.Err)
			}
		}
		if h := s.hash("newcomer"); s.shard(h).find(h, 0) == nil {
			t.Errorf("beside %d keys: no slot for a client with two requests", keys)
		}
		if err := s.audit(); err != nil {
			t.Errorf("beside %d keys: %v", keys, err)
		}
	}
}
