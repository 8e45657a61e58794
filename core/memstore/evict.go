package memstore

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"github.com/sashlimit/sash/core/internal/window"
)

// A full store gives up the key that has used the smallest part of its limit,
// and never one that is at its limit. To find it, a shard looks through its
// keys once and lists a sixteenth of them, those to go first; it looks again
// when the list is used up, so that a newcomer costs some sixteen glances.
// Where fewer than that may go, the list goes on with keys at their limit, in
// the order in which they will leave it: until the first does, the shard knows
// without looking that it has nothing to give, and refusing a flood is cheap.

// victim is a candidate as it was when listed. It may have moved, changed or
// gone since, and is appraised again when its turn comes.
type victim struct {
	slot int32
	tag  uint32  // of the slot's hash, to notice that another has moved there
	used float32 // part of the limit, below 1; 1 at the limit
	from int64   // may go from this time on
}

func compare(v, w victim) int {
	return cmp.Or(cmp.Compare(v.used, w.used), cmp.Compare(v.from, w.from))
}

// victims is a heap of candidates, who goes first on top.
type victims struct {
	list []victim
	all  bool // every key that might go when it was made is listed
}

func (v *victims) Len() int           { return len(v.list) }
func (v *victims) Less(i, j int) bool { return compare(v.list[i], v.list[j]) < 0 }
func (v *victims) Swap(i, j int)      { v.list[i], v.list[j] = v.list[j], v.list[i] }
func (v *victims) Push(x any)         { v.list = append(v.list, x.(victim)) }

func (v *victims) Pop() any {
	last := len(v.list) - 1
	x := v.list[last]
	v.list = v.list[:last]
	return x
}

func (sh *shard) tag(i int) uint32 { return uint32(sh.slot(i).hash[1] >> 32) }

// appraise tells what giving up slot i would lose.
func (sh *shard) appraise(i int, now int64) victim {
	s := sh.slot(i)
	v := victim{slot: int32(i), tag: sh.tag(i), from: now}
	limit := window.Limit{N: s.limit, W: s.window}
	decide := func(cost int64) window.Verdict {
		if s.isLog {
			l := sh.log(i)
			return l.Facts(limit, now, cost).Decide(limit, now, now, cost)
		}
		stamp := max(now, s.counter().Start(s.window))
		return s.counter().At(stamp, s.window).Decide(limit, now, stamp, cost)
	}
	if next := decide(1); !next.Admitted {
		v.used, v.from = 1, now+next.RetryAfter
		return v
	}
	// Below 1 even after rounding: only who is at the limit has used all of it.
	v.used = min(float32(limit.N-decide(0).Remaining)/float32(limit.N), math.Nextafter32(1, 0))
	return v
}

// noteNew lists a slot that came after the list was made; it is appraised in
// its turn.
func (sh *shard) noteNew(i int) {
	if v := &sh.victims; len(v.list) > 0 && len(v.list) < cap(v.list) {
		heap.Push(v, victim{slot: int32(i), tag: sh.tag(i)})
	}
}

// giveUp gives up one key other than keep. If none may go, it says from when
// on one may.
func (sh *shard) giveUp(s *Store, keep hash, now int64) (ok bool, from int64) {
	for looked := false; ; looked = true {
		if i, from := sh.nextVictim(keep, now); i >= 0 {
			sh.remove(s, i)
			return true, 0
		} else if from > now {
			return false, from
		}
		if sh.n == 0 {
			return false, math.MaxInt64
		}
		if looked {
			return false, now
		}
		if sh.listVictims(s, now) {
			return true, 0
		}
	}
}

// nextVictim takes off the list whoever has used least and may go. Without
// one it returns -1, and from when on there is one if that is known.
func (sh *shard) nextVictim(keep hash, now int64) (slot int, from int64) {
	v := &sh.victims
	for len(v.list) > 0 {
		top := v.list[0]
		if top.from > now {
			return -1, top.from
		}
		i := int(top.slot)
		if i < sh.n && sh.tag(i) == top.tag && sh.slot(i).hash != keep {
			is := sh.appraise(i, now)
			if is.used < 1 && is.used <= top.used {
				heap.Pop(v)
				return i, 0
			}
			if is.used < 1 || v.all {
				v.list[0] = is // it has used more since: others may go before it
				heap.Fix(v, 0)
				continue
			}
		}
		heap.Pop(v)
	}
	return -1, 0
}

// listVictims looks through the shard. It frees what has expired, and says
// whether there was any; else it lists who goes next.
func (sh *shard) listVictims(s *Store, now int64) (freed bool) {
	for i := sh.n - 1; i >= 0; i-- {
		if sh.slot(i).over(now) {
			sh.remove(s, i)
			freed = true
		}
	}
	if freed {
		return true
	}
	want := max(sh.n/16, 8)
	list := make([]victim, 0, 2*want)
	for i := range sh.n {
		v := sh.appraise(i, now)
		if len(list) == cap(list) {
			slices.SortFunc(list, compare)
			list = list[:want]
		}
		if len(list) < want || compare(v, list[want-1]) < 0 {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, compare)
	list = list[:min(len(list), want)]
	sh.victims = victims{list: list, all: len(list) == sh.n || list[len(list)-1].used == 1}
	return false // sorted is a heap
}

// makeRoom gives keys up until what is lacking may be had: in the key's own
// shard if possible, else elsewhere. It holds one lock at a time.
func (s *Store) makeRoom(own *shard, keep hash, lacks need, now int64) bool {
	own.mu.Lock()
	ok := true
	for ok {
		// What giving up has made superfluous, a chunk or a longer index, is not lacking.
		if _, _, total := own.price(lacks.slots, lacks.bytes); s.used.Load()+total <= s.max {
			break
		}
		ok, _ = own.giveUp(s, keep, now)
	}
	own.mu.Unlock()
	if ok {
		return true
	}
	if s.stuck.Load() > now {
		return false
	}
	stuck := int64(math.MaxInt64)
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sh.release(s, chunkSlots)
		ok, from := true, int64(0)
		for ok && s.used.Load()+lacks.total > s.max {
			if ok, from = sh.giveUp(s, keep, now); ok {
				sh.release(s, chunkSlots)
			}
		}
		sh.mu.Unlock()
		if ok {
			return true
		}
		stuck = min(stuck, from)
	}
	s.stuck.Store(stuck)
	return false
}
