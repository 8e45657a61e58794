package memstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// audit counts the bytes of every table anew and looks whether the tables hold
// together. Nobody may use the store meanwhile.
func (s *Store) audit() error {
	total := int64(len(s.shards)) * shardBytes
	for number := range s.shards {
		sh := &s.shards[number]
		total += int64(len(sh.chunks))*chunkBytes + int64(len(sh.index))*4
		if sh.n > len(sh.chunks)*chunkSlots || sh.n*8 > len(sh.index)*7 || len(sh.index)&(len(sh.index)-1) != 0 {
			return fmt.Errorf("shard %d: %d slots in %d chunks and an index of %d", number, sh.n, len(sh.chunks), len(sh.index))
		}
		if most := len(sh.chunks)*chunkVictims + leastVictims; cap(sh.victims.list) > most {
			return fmt.Errorf("shard %d: a list with room for %d, beside chunks that pay for %d", number, cap(sh.victims.list), most)
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
			if words := at.log.Words(); words > 0 {
				if !sh.bounds.of(at).isLog {
					return fmt.Errorf("shard %d: the counter %d has a ring", number, i)
				}
				if room := cap(append([]int64(nil), make([]int64, words)...)); room != words {
					return fmt.Errorf("shard %d: slot %d has a ring of %d with room for %d", number, i, words, room)
				}
				total += ringSize(words)
			}
		}
	}
	if used := s.used.Load(); used != total {
		return fmt.Errorf("Bytes says %d, the tables hold %d", used, total)
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
	store.shards[0].grow(store, 1, 0)
	if at := uintptr(unsafe.Pointer(store.shards[0].slot(0))); at%unsafe.Sizeof(slot{}) != 0 {
		t.Errorf("slots at %#x do not begin with a line of the cache", at)
	}
	if size := unsafe.Sizeof(slot{}); size != 64 {
		t.Errorf("a slot takes %d bytes", size)
	}
	log := reflect.TypeFor[window.Log]()
	if f, _ := log.FieldByName("Spare"); f.Offset < unsafe.Sizeof(window.Counter{}) {
		t.Error("a counter lies where a log has room to spare")
	}
	for i := range log.NumField() {
		if f := log.Field(i); f.Type.Kind() == reflect.Pointer && f.Offset < unsafe.Sizeof(window.Counter{}) {
			t.Errorf("a counter lies where a log has the pointer %s", f.Name)
		}
	}
	for words := 1; words < 100_000; words += 1 + words/50 {
		var l window.Log
		for l.Words() < words || int(l.Len) < l.Words() {
			l.Push(1, 1)
		}
		grown := ringGrowth(&l, 1)
		before := ringBytes(&l)
		l.Push(1, 1)
		if got := ringBytes(&l) - before; got > grown {
			t.Errorf("a ring of %d bytes grew by %d, foreseen were %d", before, got, grown)
		}
	}
}

// TestWanted: a cost that was refused is remembered, above 2^24 not exactly, but
// never as less and never as more than the limit.
func TestWanted(t *testing.T) {
	for n := int64(1); n <= core.MaxCounterRequests; n += 1 + n/3 {
		for cost := int64(1); cost <= n; cost += 1 + cost/3 {
			for _, cost := range []int64{cost, n - cost + 1} {
				var s slot
				if got := s.wanted(n); got != 1 {
					t.Fatalf("of %d, nothing was refused: %d", n, got)
				}
				s.want(cost, n)
				if got := s.wanted(n); got < cost || got > n || n < 1<<24 && got != cost || got-cost > n>>23 {
					t.Fatalf("of %d, %d was refused: %d", n, cost, got)
				}
			}
		}
	}
}

// TestWantedOfAChangedLimit: by another limit it may not have been refused.
func TestWantedOfAChangedLimit(t *testing.T) {
	s := New()
	of := func(n int64) *core.Limiter {
		return core.Must(core.New(core.Config{Store: s, Limits: []core.Limit{core.PerDay(n)}, OnStoreError: core.FailClosed}))
	}
	wanted := func() int64 {
		h := s.hash("k")
		sh := s.shard(h)
		at := sh.find(h, 0)
		return at.wanted(sh.bounds.of(at).N)
	}
	for _, cost := range []int64{8, 4, 3, 11, 2, 1} { // 11 is never to be had, 2 is, and 1 is no news
		of(10).AllowN(context.Background(), "k", cost)
	}
	if got := wanted(); got != 3 {
		t.Errorf("of 10, 3 was refused last: %d", got)
	}
	if of(20).AllowN(context.Background(), "k", 0); wanted() != 1 {
		t.Errorf("of 20, nothing was refused: %d", wanted())
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
		one := window.Limit{N: 1, W: 1}
		number := s.bounds.number(bound{Limit: one})
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
			if id, ok := model[e]; ok != (slot != nil) || ok && slot.counter().Index != id {
				t.Fatalf("step %d: %v is found as %+v, in the map: %v", step, e, slot, ok)
			}
			growing := step/2000%2 == 0
			switch {
			case slot == nil && (growing || rng.IntN(3) == 0):
				if lacks := sh.grow(s, 1, 0); !lacks.none() {
					t.Fatalf("step %d: lacks %+v", step, lacks)
				}
				l := limit{Limit: core.PerHour(1).Using(core.SlidingCounter), window: one, ident: e.ident, bound: number}
				sh.insert(e.hash, &l).counter().Index = int64(step)
				model[e] = int64(step)
				entries = append(entries, e)
			case slot == nil && len(entries) > 0: // remove any
				k := rng.IntN(len(entries))
				e = entries[k]
				p, _ := sh.place(e.hash, e.ident)
				entries[k] = entries[len(entries)-1]
				entries = entries[:len(entries)-1]
				sh.remove(s, sh.named(p))
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
					if slot := sh.find(e.hash, e.ident); slot == nil || slot.counter().Index != id {
						t.Fatalf("step %d: %v is lost", step, e)
					}
				}
			}
		}
		for len(entries) > 0 {
			e := entries[len(entries)-1]
			entries = entries[:len(entries)-1]
			p, _ := sh.place(e.hash, e.ident)
			sh.remove(s, sh.named(p))
		}
		if sh.n != 0 || len(sh.chunks) > 1 || len(sh.index) > 2*chunkSlots {
			t.Errorf("an empty shard keeps %d chunks and an index of %d", len(sh.chunks), len(sh.index))
		}
	}
}

// auditTable audits a shard whose hashes were made up.
func (s *Store) auditTable(sh *shard) error {
	alone := &Store{max: s.max, shards: make([]shard, 1)}
	own := &alone.shards[0]
	own.index, own.n, own.chunks, own.bounds = sh.index, sh.n, sh.chunks, sh.bounds
	alone.used.Store(s.used.Load() - int64(len(s.shards)-1)*shardBytes)
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
			l, err := core.New(core.Config{Name: fmt.Sprint(i - i/3%2), Store: s, Limits: limits, OnStoreError: core.FailClosed})
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

// TestNothingIsLeftOfAFlood: a full store lists who goes next; the list does not
// outlive the chunks whose bytes pay for it, nor does the table of the chunks.
func TestNothingIsLeftOfAFlood(t *testing.T) {
	const size = 2 << 20
	for _, n := range []int64{1, 100} { // at their limit, or not
		s := New(WithMaxBytes(size))
		empty := s.Bytes()
		l := core.Must(core.New(core.Config{Store: s, Limits: []core.Limit{core.PerDay(n)}, OnStoreError: core.FailClosed}))
		const clients = size / 40
		for i := range clients {
			l.Allow(context.Background(), fmt.Sprint(i))
		}
		for i := range clients { // beginning with those who came last
			l.Reset(context.Background(), fmt.Sprint(clients-1-i))
			if i%500 == 0 {
				if err := s.audit(); err != nil {
					t.Fatalf("PerDay(%d), %d of %d reset: %v", n, i, clients, err)
				}
			}
		}
		if s.Bytes() > empty+int64(len(s.shards))*2*chunkBytes {
			t.Errorf("PerDay(%d): %d bytes are left, %d when empty", n, s.Bytes(), empty)
		}
	}
}

// TestHonest compares what the store says with what the heap says.
func TestHonest(t *testing.T) {
	for _, c := range []struct {
		name     string
		limit    core.Limit
		requests int
	}{
		{"counters", core.PerDay(100).Using(core.SlidingCounter), 1},
		{"logs of one", core.PerDay(100), 1},
		{"logs of ten", core.PerDay(100), 10},
		{"logs of three hundred", core.PerDay(1000), 300},
	} {
		before := heapAlloc()
		s := New()
		l, err := core.New(core.Config{Store: s, Limits: []core.Limit{c.limit}, OnStoreError: core.FailClosed})
		if err != nil {
			t.Fatal(err)
		}
		for k := range 40_000 / c.requests {
			for range c.requests {
				if d := l.Allow(context.Background(), fmt.Sprint(k)); !d.Allowed {
					t.Fatal(d)
				}
			}
		}
		heap := heapAlloc() - before
		if slack := s.Bytes()/50 + 64<<10; heap > s.Bytes()+slack {
			t.Errorf("%s: the heap grew by %d, Bytes says %d", c.name, heap, s.Bytes())
		} else if heap < s.Bytes()*3/4 {
			t.Errorf("%s: the heap grew by %d only, Bytes says %d", c.name, heap, s.Bytes())
		}
		runtime.KeepAlive(s)
	}
}

func heapAlloc() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestFullToTheByte: a newcomer for whom there is a slot, but not the few bytes
// by which the index must grow, takes the place of another.
func TestFullToTheByte(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for keys := range 100 {
		s := New(WithMaxBytes(MinMaxBytes), WithClock(func() time.Time { return now }))
		l := core.Must(core.New(core.Config{Store: s, Limits: []core.Limit{core.PerHour(100).Using(core.SlidingCounter)}, OnStoreError: core.FailClosed}))
		for k := range keys {
			l.Allow(context.Background(), fmt.Sprint(k))
		}
		if s.max = s.Bytes(); keys == 0 {
			if d := l.Allow(context.Background(), "newcomer"); d.Err == nil {
				t.Error("a store without any room took somebody in")
			}
			continue
		}
		if d := l.Allow(context.Background(), "newcomer"); d.Err != nil {
			t.Errorf("beside %d keys that may go: %v", keys, d.Err)
		}
		if err := s.audit(); err != nil {
			t.Errorf("beside %d keys: %v", keys, err)
		}
	}
}

// TestGivenUpAtALaterTime: whoever makes room in another shard may have read the
// clock later than somebody who waits for the lock there. What he gives up, the
// other does not miss at his own, earlier time.
func TestGivenUpAtALaterTime(t *testing.T) {
	s := New(WithMaxBytes(2 * bytesPerShard))
	l := core.Must(core.New(core.Config{Store: s, Limits: []core.Limit{core.PerHour(1)}, OnStoreError: core.FailClosed}))
	first := l.Allow(context.Background(), "k")
	later := first.At.Add(time.Hour).UnixMicro()
	s.lookAll(later)
	s.shard(s.hash("k")).squeeze(s, hash{}, need{total: s.max}, later, whole)
	if d := l.Allow(context.Background(), "k"); !d.Allowed || d.At.Sub(first.At) < time.Hour {
		t.Errorf("admitted at %v, given up when it had expired, and then %+v", first.At, d)
	}
}

// mixed returns a store that is full of clients with all sorts of logs and
// counters, some at their limit and some not, and its clock.
func mixed(t *testing.T, size int64) (s *Store, one *core.Limiter, now time.Time) {
	rng := rand.New(rand.NewPCG(uint64(size), 3))
	now = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	s = New(WithMaxBytes(size), WithClock(func() time.Time { return now }))
	one = core.Must(core.New(core.Config{Name: "one", Store: s, Limits: []core.Limit{core.PerHour(1)}, OnStoreError: core.FailClosed}))
	limiters := []*core.Limiter{
		one,
		core.Must(one.Rule("few", core.PerHour(4).Using(core.SlidingCounter), core.PerDay(4))),
		core.Must(one.Rule("some", core.PerHour(40))),
		core.Must(one.Rule("many", core.PerDay(4000))),
	}
	for i := 0; s.Bytes() < size*9/10; i++ {
		n := rng.IntN(len(limiters))
		for range 1 + rng.IntN(1<<(3*n)) {
			limiters[n].Allow(context.Background(), fmt.Sprint(i))
		}
	}
	for i := range 100 { // what is free is not all at the end
		limiters[1].Reset(context.Background(), fmt.Sprint(7*i))
	}
	return s, one, now
}

// lookAll goes through all shards.
func (s *Store) lookAll(now int64) *rest {
	r := s.look(0, now)
	for range s.shards {
		r = r.next(s, now)
	}
	return r
}

// TestLook holds what a look finds against what is left when all is given up that
// has used up to some part.
func TestLook(t *testing.T) {
	for _, size := range []int64{MinMaxBytes, 256 << 10, 3 << 20} {
		s, _, now := mixed(t, size)
		found := s.lookAll(now.UnixMicro())
		for level, part := range parts {
			for i := range s.shards {
				sh := &s.shards[i]
				for sh.giveUp(s, hash{}, now.UnixMicro(), part) {
				}
				sh.release(s, chunkSlots)
				if level == whole && sh.n != sh.rest.slots {
					t.Errorf("%d, shard %d: %d slots are left, foreseen were %d", size, i, sh.n, sh.rest.slots)
				}
			}
			if err := s.audit(); err != nil {
				t.Fatal(err)
			}
			if left := s.Bytes(); left != found.bytes[level] || left == size*9/10 && level == whole {
				t.Errorf("%d: without who has used up to %v %d bytes are left, foreseen were %d", size, part, left, found.bytes[level])
			}
		}
	}
}

// TestLookGoesOn: no request waits until a large store has been looked through.
// The next goes on where it ended, until there is room or certainly none.
func TestLookGoesOn(t *testing.T) {
	for _, room := range []bool{true, false} {
		now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		s := New(WithMaxBytes(4*lookShards*bytesPerShard), WithClock(func() time.Time { return now }))
		ctx := context.Background()
		many := core.Must(core.New(core.Config{Store: s, Limits: []core.Limit{core.PerDay(100)}, OnStoreError: core.FailClosed}))
		one := core.Must(many.Rule("one", core.PerDay(1)))
		many.Allow(ctx, "k")
		first := s.number(s.hash("k"))
		if room { // in the last shard that the third request comes to
			far := 0
			for (s.number(s.hash(fmt.Sprint(far)))-first)%uint64(len(s.shards)) != 3*lookShards-1 {
				far++
			}
			for range 50 {
				many.Allow(ctx, fmt.Sprint(far))
			}
		}
		for i := range 2000 {
			one.Allow(ctx, fmt.Sprint("exhausted ", i))
		}
		s.max = s.Bytes()
		for request := 1; request <= 4; request++ {
			d := many.Allow(ctx, "k")
			if admitted := room && request == 3; d.Allowed != admitted {
				t.Fatalf("room: %v, request %d: %+v", room, request, d)
			} else if admitted {
				break
			}
			if r, want := s.rest.Load(), request*lookShards; r.looked != want {
				t.Fatalf("room: %v, request %d: %d shards were looked at, want %d", room, request, r.looked, want)
			}
		}
		if err := s.audit(); err != nil {
			t.Error(err)
		}
	}
}

// TestLookBeginsWhereRoomWas: newcomers who come so seldom that each needs a look
// of its own find what only a distant shard has.
func TestLookBeginsWhereRoomWas(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	s := New(WithMaxBytes(4*lookShards*bytesPerShard), WithClock(func() time.Time { return now }))
	ctx := context.Background()
	one := core.Must(core.New(core.Config{Store: s, Limits: []core.Limit{core.PerDay(1)}, OnStoreError: core.FailClosed}))
	many := core.Must(one.Rule("many", core.PerDay(1000)))
	for i := range 10_000 {
		if k := fmt.Sprint(i); s.shard(s.hash(k)).n < chunkSlots {
			one.Allow(ctx, k)
		}
	}
	const heavy = 5 // in the first shard, each worth a chunk and a bit
	for i, n := 0, 0; n < heavy; i++ {
		if k := fmt.Sprint("heavy ", i); s.number(s.hash(k)) == 0 {
			for range 600 {
				many.Allow(ctx, k)
			}
			n++
		}
	}
	s.max = s.Bytes()
	turned := 0
	for i, admitted := 0, 0; admitted < heavy; i++ {
		k := fmt.Sprint("newcomer ", i)
		own := int(s.number(s.hash(k)))
		if own == 0 || own+lookShards > len(s.shards) || s.shards[own].free() > 0 {
			continue
		}
		if now = now.Add(time.Second); one.Allow(ctx, k).Err == nil {
			admitted++
		} else if turned++; turned == 4 {
			t.Fatalf("%d newcomers were turned away after %d were let in, beside %d who may go", turned, admitted, heavy-admitted)
		}
	}
}

// TestLookReleases: a chunk that is not in use lets a newcomer in elsewhere though
// nobody may go for long.
func TestLookReleases(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	s := New(WithMaxBytes(2*bytesPerShard), WithClock(func() time.Time { return now }))
	ctx := context.Background()
	one := core.Must(core.New(core.Config{Store: s, Limits: []core.Limit{core.PerDay(1)}, OnStoreError: core.FailClosed}))
	full, other := s.shard(s.hash("newcomer")), &s.shards[0]
	if other == full {
		other = &s.shards[1]
	}
	for i := 0; full.n < 2*chunkSlots || other.n < 2*chunkSlots; i++ {
		if k := fmt.Sprint(i); s.shard(s.hash(k)).n < 2*chunkSlots {
			one.Allow(ctx, k)
		}
	}
	s.max = s.Bytes()
	for i := 0; other.free() < chunkSlots; i++ {
		if k := fmt.Sprint(i); s.shard(s.hash(k)) == other {
			one.Reset(ctx, k)
		}
	}
	s.lookAll(now.UnixMicro())
	if s.stuck.Load() <= now.UnixMicro() {
		t.Fatal("somebody may go")
	}
	if d := one.Allow(ctx, "newcomer"); d.Err != nil {
		t.Errorf("beside %d free slots: %v", other.free(), d.Err)
	}
	if err := s.audit(); err != nil {
		t.Error(err)
	}
}

// TestLookHolds: one look serves many requests for which there is no room.
func TestLookHolds(t *testing.T) {
	s, one, now := mixed(t, 3<<20)
	all := s.max - int64(len(s.shards))*shardBytes - 32<<10 // for the tables of two more slots
	lacks := need{slots: 2, bytes: all, total: all}
	keys := func() (n int) {
		for i := range s.shards {
			n += s.shards[i].n
		}
		return n
	}
	turned := func(now time.Time) *rest {
		t.Helper()
		before := keys()
		if s.makeRoom(s.shard(s.hash("k")), s.hash("k"), lacks, now.UnixMicro()) || keys() != before {
			t.Fatalf("%d keys became %d", before, keys())
		}
		return s.rest.Load()
	}
	if turned(now) == nil {
		t.Fatal("nobody looked")
	}
	s.rest.Load().took = 20 * time.Minute // restShare of them are seven hours
	first := s.rest.Load()
	if turned(now) != first || turned(now.Add(time.Hour)) != first || turned(now.Add(-time.Hour)) != first {
		t.Error("another look, when the first still held")
	}
	one.Allow(context.Background(), "reset")
	if one.Reset(context.Background(), "reset"); !s.changed.Load() || turned(now) != first {
		t.Error("a Reset is followed by a look, however long that takes")
	}
	if turned(now.Add(7*time.Hour)) == first {
		t.Error("no other look seven hours later")
	}

	// A look that promises too much is found out once.
	vain := *s.rest.Load()
	vain.took, vain.now = 20*time.Minute, now.UnixMicro()
	vain.know(whole, 0)
	s.rest.Store(&vain)
	if before := keys(); s.makeRoom(s.shard(s.hash("k")), s.hash("k"), lacks, now.UnixMicro()) || keys() == before {
		t.Fatalf("of %d keys %d are left", before, keys())
	}
	some := core.Must(one.Rule("some", core.PerHour(40)))
	some.Allow(context.Background(), "a newcomer")
	turned(now)
	if d := some.AllowN(context.Background(), "a newcomer", 0); d.Remaining != 39 {
		t.Errorf("given up in vain once more: %+v", d)
	}
}
