package memstore

import (
	"cmp"
	"math"
	"slices"
	"time"

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
	from int64   // at the limit: may go from this time on; else 0
}

func compare(v, w victim) int {
	return cmp.Or(cmp.Compare(v.used, w.used), cmp.Compare(v.from, w.from))
}

// victims is a heap of candidates, who goes first on top. Whoever goes before
// last is listed, or was not due when the list was made.
type victims struct {
	list []victim
	last victim
}

// Of the victims that a list may have room for, a chunk's bytes pay for some,
// and the shard's for the least.
const (
	chunkVictims = (chunkSlots + 1) / 16 * 2
	leastVictims = 8
)

// fit moves the list, when chunks have gone, to where it takes no more than they
// pay for.
func (v *victims) fit(chunks int) {
	paid := chunks*chunkVictims + leastVictims
	if cap(v.list) <= paid {
		return
	}
	if less := paid * 3 / 4; len(v.list) <= less { // not with each chunk
		v.list = append(make([]victim, 0, less), v.list...)
		return
	}
	*v = victims{}
}

func (v *victims) push(x victim) {
	v.list = append(v.list, x)
	for i := len(v.list) - 1; i > 0; {
		up := (i - 1) / 2
		if compare(v.list[up], v.list[i]) <= 0 {
			break
		}
		v.list[up], v.list[i] = v.list[i], v.list[up]
		i = up
	}
}

// replace puts x in the place of the top.
func (v *victims) replace(x victim) {
	v.list[0] = x
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(v.list); child++ {
			if compare(v.list[child], v.list[least]) < 0 {
				least = child
			}
		}
		if least == i {
			return
		}
		v.list[i], v.list[least] = v.list[least], v.list[i]
		i = least
	}
}

func (v *victims) pop() {
	last := len(v.list) - 1
	x := v.list[last]
	if v.list = v.list[:last]; last > 0 {
		v.replace(x)
	}
}

func (sh *shard) tag(i int) uint32 { return uint32(sh.slot(i).hash.high >> 32) }

// appraise tells what giving up slot i would lose.
func (sh *shard) appraise(i int, now int64) victim {
	s := sh.slot(i)
	v := victim{slot: int32(i), tag: sh.tag(i)}
	limit := sh.bounds.of(s)
	decide := func(cost int64) window.Verdict {
		if limit.isLog {
			return s.log.Facts(limit.Limit, now, cost).Decide(limit.Limit, now, now, cost)
		}
		stamp := max(now, s.counter().Start(limit.W))
		return s.counter().At(stamp, limit.W).Decide(limit.Limit, now, stamp, cost)
	}
	if next := decide(s.wanted(limit.N)); !next.Admitted {
		v.used, v.from = 1, now+next.RetryAfter
		return v
	}
	// Below 1 even after rounding: only who is at the limit has used all of it.
	v.used = min(float32(limit.N-decide(0).Remaining)/float32(limit.N), math.Nextafter32(1, 0))
	return v
}

// note lists a slot that came, or moved to where it is, after the list was
// made; it is appraised in its turn. When the list is full, the shard looks
// anew when it has to.
func (sh *shard) note(i int) {
	switch v := &sh.victims; len(v.list) {
	case 0:
	case cap(v.list):
		*v = victims{}
	default:
		v.push(victim{slot: int32(i), tag: sh.tag(i)})
	}
}

// giveUp gives up one key other than keep, one that has used at most so much of
// its limit. If none may go, it says from when on one may, as far as is known:
// from now on, if only keep's own may.
func (sh *shard) giveUp(s *Store, keep hash, now int64, most float32) (ok bool, from int64) {
	for looked := false; ; looked = true {
		if i, from := sh.nextVictim(keep, now, most); i >= 0 {
			sh.remove(s, i)
			return true, 0
		} else if from >= now {
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

// nextVictim tells whoever has used least and may go. Without one it returns
// -1, and from when on there is one for anybody if that is known.
func (sh *shard) nextVictim(keep hash, now int64, most float32) (slot int, from int64) {
	v := &sh.victims
	var few [8]victim
	kept := few[:0] // put back at the end
	for slot = -1; slot < 0 && len(v.list) > 0; {
		top := v.list[0]
		if top.used > most {
			from = math.MaxInt64
			break
		}
		if top.from > now {
			from = top.from
			break
		}
		i := int(top.slot)
		if i >= sh.n || sh.tag(i) != top.tag {
			v.pop()
			continue
		}
		if sh.slot(i).hash == keep {
			v.pop()
			kept = append(kept, top)
			continue
		}
		switch is := sh.appraise(i, now); {
		case is.used < 1 && is.used <= top.used:
			v.pop()
			slot = i
		case compare(is, v.last) <= 0:
			v.replace(is) // it has used more since: others may go before it
		default:
			v.pop() // others may, who are not listed
		}
	}
	for _, k := range kept {
		v.push(k)
		from = min(from, now) // others may take its place
	}
	return slot, from
}

// listVictims looks through the shard. It frees what has expired, and says
// whether there was any; else it lists who goes next.
func (sh *shard) listVictims(s *Store, now int64) (freed bool) {
	for i := sh.n - 1; i >= 0; i-- {
		if sh.over(sh.slot(i), now) {
			sh.remove(s, i)
			freed = true
		}
	}
	if freed {
		return true
	}
	want := max(sh.n/16, 8)
	list := make([]victim, 0, 2*want)
	cut := false // list[:want] are the first of those seen
	for i := range sh.n {
		if len(list) == cap(list) {
			slices.SortFunc(list, compare)
			list, cut = list[:want], true
		}
		if v := sh.appraise(i, now); !cut || compare(v, list[want-1]) < 0 {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, compare) // sorted is a heap
	list = list[:min(len(list), want)]
	sh.victims = victims{list: list, last: list[len(list)-1]}
	if len(list) == sh.n {
		sh.victims.last.used = 2 // all are listed
	}
	return false
}

// makeRoom gives keys up until what is lacking may be had, or none if it may
// not. It holds one lock at a time.
func (s *Store) makeRoom(own *shard, keep hash, lacks need, now int64) bool {
	// Nearly every newcomer takes the place of somebody in its own shard.
	if lacks.slots == 1 && lacks.bytes == 0 && own.makeRoom(s, keep, lacks, now) {
		return true
	}
	if s.stuck.Load() > now || !s.attainable(own, keep, lacks, now) {
		return false
	}
	// A long ring that grows takes the place of many. Its own shard may not have
	// so many who have used little, so look in all, at those first.
	if lacks.bytes > chunkBytes {
		for _, most := range [...]float32{1. / 256, 1. / 64, 1. / 16, 1. / 4} {
			for i := range s.shards {
				if ok, _ := s.shards[i].squeeze(s, keep, lacks, now, most); ok {
					return true
				}
			}
		}
	}
	if own.makeRoom(s, keep, lacks, now) {
		return true
	}
	stuck := int64(math.MaxInt64)
	for i := range s.shards {
		ok, from := s.shards[i].squeeze(s, keep, lacks, now, 1)
		if ok {
			return true
		}
		stuck = min(stuck, from)
	}
	if stuck > now {
		s.stuck.Store(stuck)
	}
	// Some reached their limits since the look. The others were given up in vain,
	// which is not to happen again before the next.
	r := *s.rest.Load()
	r.bytes = s.used.Load()
	s.rest.Store(&r)
	return false
}

// makeRoom gives keys of the shard up until it has what is lacking.
func (sh *shard) makeRoom(s *Store, keep hash, lacks need, now int64) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now = sh.at(s, now)
	for {
		// What giving up has made superfluous, a chunk or a longer index, is not lacking.
		if _, _, total := sh.price(lacks.slots, lacks.bytes); s.used.Load()+total <= s.max {
			return true
		}
		if ok, _ := sh.giveUp(s, keep, now, 1); !ok {
			return false
		}
	}
}

// squeeze gives keys up until the store has what is lacking.
func (sh *shard) squeeze(s *Store, keep hash, lacks need, now int64, most float32) (ok bool, from int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now = sh.at(s, now)
	sh.release(s, chunkSlots)
	for s.used.Load()+lacks.total > s.max {
		if ok, from = sh.giveUp(s, keep, now, most); !ok {
			return false, from
		}
		sh.release(s, chunkSlots)
	}
	return true, 0
}

// A client whose log cannot grow any more in a store could have all others given
// up, in vain, with every request. So a look through all slots finds first what
// would be left. It takes long in a large store, and is not to be had at will:
// what it found holds for restHolds, and for restShare times as long as it took.
const (
	restHolds = 100 * time.Millisecond
	restShare = 20
)

// rest is what giving up all that may go would leave.
type rest struct {
	bytes  int64
	shards []shardRest

	now      int64         // of the look, by the clock of the store
	at, took time.Duration // of the look, since the base of the store
}

type shardRest struct {
	slots int
	bytes int64 // of the tables, without rings
}

// holds says whether a look need not be repeated.
func (r *rest) holds(s *Store, now int64) bool {
	age := restShare * r.took
	if !s.changed.Load() {
		age = max(age, restHolds)
	}
	since := max(now-r.now, r.now-now)
	return time.Since(s.base)-r.at <= age && since <= age.Microseconds()
}

// left is what giving up all would leave, as far as is known.
func (s *Store) left(now int64) *rest {
	r := s.rest.Load()
	switch {
	case r == nil:
		s.looking.Lock()
	case r.holds(s, now) || !s.looking.TryLock():
		return r
	}
	defer s.looking.Unlock()
	if newer := s.rest.Load(); newer != r {
		return newer
	}
	r = s.look(now)
	s.rest.Store(r)
	return r
}

// look goes through all slots, under one lock at a time.
func (s *Store) look(now int64) *rest {
	s.changed.Store(false)
	r := &rest{shards: make([]shardRest, len(s.shards)), now: now, at: time.Since(s.base)}
	stuck := int64(math.MaxInt64)
	for number := range s.shards {
		sh, of := &s.shards[number], &r.shards[number]
		sh.mu.Lock()
		for i := range sh.n {
			v := sh.appraise(i, now)
			if v.used == 1 {
				of.slots++
				r.bytes += ringBytes(&sh.slot(i).log)
			}
			stuck = min(stuck, v.from)
		}
		of.bytes = sh.left(of.slots, 0)
		sh.mu.Unlock()
		r.bytes += shardBytes + of.bytes
	}
	if stuck > now {
		s.stuck.Store(stuck)
		if s.changed.Load() {
			s.stuck.Store(0)
		}
	}
	r.took = time.Since(s.base) - r.at
	return r
}

// attainable says whether giving up all that may go, but nothing of the key's
// own, makes room for what is lacking.
func (s *Store) attainable(own *shard, keep hash, lacks need, now int64) bool {
	s.mu.Lock()
	idents := uint32(len(s.idents))
	s.mu.Unlock()

	own.mu.Lock()
	_, _, rings := own.held(keep, idents, now)
	own.mu.Unlock()
	if int64(len(s.shards))*shardBytes+rings+lacks.total > s.max {
		return false // not even alone
	}

	r := s.left(now)
	of := r.shards[s.number(keep)]
	own.mu.Lock()
	defer own.mu.Unlock()
	slots, rings, _ := own.held(keep, idents, now) // counted among those that may go
	tables := own.left(min(of.slots+slots, own.n), lacks.slots)
	return r.bytes-of.bytes+tables+rings+lacks.bytes <= s.max
}

// held tells how many slots of a key might be given up for another's sake, what
// their rings take, and what all its rings take.
func (sh *shard) held(key hash, idents uint32, now int64) (slots int, rings, all int64) {
	if sh.n == 0 {
		return
	}
	for ident := range idents {
		p, at := sh.place(key, ident)
		if at == nil {
			continue
		}
		bytes := ringBytes(&at.log)
		if all += bytes; sh.appraise(sh.named(p), now).used < 1 {
			slots++
			rings += bytes
		}
	}
	return slots, rings, all
}
