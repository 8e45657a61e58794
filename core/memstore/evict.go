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
// its limit.
func (sh *shard) giveUp(s *Store, keep hash, now int64, most float32) bool {
	for looked := false; ; looked = true {
		i, none := sh.nextVictim(keep, now, most)
		if i >= 0 {
			sh.remove(s, i)
			return true
		}
		if none || looked || sh.n == 0 {
			return false
		}
		if sh.listVictims(s, now) {
			return true
		}
	}
}

// nextVictim tells whoever has used least and may go. Without one it returns
// -1, and whether there is none for certain.
func (sh *shard) nextVictim(keep hash, now int64, most float32) (slot int, none bool) {
	v := &sh.victims
	var few [8]victim
	kept := few[:0] // put back at the end
	for slot = -1; slot < 0 && len(v.list) > 0; {
		top := v.list[0]
		if none = top.used > most || top.from > now; none {
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
	}
	return slot, none
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
	// A long ring takes longer to copy, too.
	budget := lookShards + int(lacks.bytes*8/bytesPerShard)
	for s.stuck.Load() <= max(now, 0) {
		r := s.attainable(own, keep, lacks, now, &budget)
		if r == nil {
			return false
		}
		most := whole
		if lacks.many() && r.looked < len(s.shards) && budget > 0 {
			most = little
		}
		if s.giveUp(r, own, keep, lacks, now, most) {
			return true
		}
		// Some reached their limits since the look, or have gone. Others were given
		// up in vain, which is not to happen again: go on where nobody has looked.
		vain := *r
		vain.know(most, s.max)
		if !s.rest.CompareAndSwap(r, &vain) {
			return false
		}
	}
	return false
}

// giveUp gives keys up in the shards that were looked at, until the store has
// what is lacking. Who has used more goes when none is left who has used less.
func (s *Store) giveUp(r *rest, own *shard, keep hash, lacks need, now int64, most int) bool {
	for level := range most + 1 {
		if level == whole && own.makeRoom(s, keep, lacks, now) {
			return true
		}
		if level < whole && !lacks.many() {
			continue
		}
		for i := range r.looked {
			if s.shards[(r.first+i)%len(s.shards)].squeeze(s, keep, lacks, now, level) {
				return true
			}
		}
	}
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
		if !sh.giveUp(s, keep, now, 1) {
			return false
		}
	}
}

// squeeze gives keys up until the store has what is lacking.
func (sh *shard) squeeze(s *Store, keep hash, lacks need, now int64, level int) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now = sh.at(s, now)
	sh.release(s, chunkSlots)
	least := int64(worthwhile)
	if level == whole {
		least = 1
	}
	for s.used.Load()+lacks.total > s.max {
		if sh.rest.frees[level] < least || !sh.giveUp(s, keep, now, parts[level]) {
			return false
		}
		sh.release(s, chunkSlots)
	}
	return true
}

// A client whose log cannot grow any more in a store could have all others given
// up, in vain, with every request. So a look finds first what would be left. To
// go through all slots takes long in a large store: it goes through one shard
// after the other, until it has found enough, and no request waits for more than
// lookShards and what is in proportion to its need. The next one goes on. What
// was found holds for restHolds, and for restShare times as long as it took.
const (
	lookShards = 8
	restHolds  = 100 * time.Millisecond
	restShare  = 20
)

// parts of a limit: a long ring that grows takes the place of many, of those
// first who have used up to the least part that is enough.
var parts = [...]float32{1. / 256, 1. / 64, 1. / 16, 1. / 4, 1}

const (
	little = 1 // of parts: nobody looks on for those who have used less
	whole  = len(parts) - 1

	worthwhile = bytesPerShard / 32 // to look through a shard for those who have used less
)

// many says whether it takes many keys to make up for it.
func (n need) many() bool { return n.bytes > chunkBytes }

// rest is what giving up all that may go would leave, as far as a look went.
type rest struct {
	bytes         [len(parts)]int64 // by the part that they have used at most
	first, looked int               // so many shards, from the first on and round
	stuck         int64             // until when nobody may go in them

	now      int64         // of its beginning, by the clock of the store
	at, took time.Duration // of its beginning, since the base of the store, and in all
}

// shardRest is what a look has found in a shard.
type shardRest struct {
	frees [len(parts)]int64 // to give up those who have used up to some part
	slots int               // that stay when all go
	bytes int64             // of the tables then
}

// know sets what is left when those have gone who have used up to some part.
func (r *rest) know(most int, bytes int64) {
	for level := range most + 1 {
		r.bytes[level] = bytes
	}
}

// saw says whether the look went through a shard.
func (r *rest) saw(s *Store, number uint64) bool {
	return (int(number)-r.first+len(s.shards))%len(s.shards) < r.looked
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

// look begins a look through the store with one of the shards.
func (s *Store) look(first int, now int64) *rest {
	s.changed.Store(false)
	s.stuck.Store(looking)
	r := &rest{first: first, stuck: math.MaxInt64, now: now, at: time.Since(s.base)}
	r.know(whole, s.used.Load())
	return r
}

// looking is what stuck says until somebody may go after all or all shards were
// looked at.
const looking = -1

// next goes on with one more shard.
func (r rest) next(s *Store, now int64) *rest {
	began := time.Since(s.base)
	r.stuck = min(r.stuck, s.shards[(r.first+r.looked)%len(s.shards)].look(s, now, &r.bytes))
	if r.looked++; r.looked == len(s.shards) && r.stuck > now {
		s.stuck.CompareAndSwap(looking, r.stuck)
	}
	r.took += time.Since(s.base) - began
	return &r
}

// look takes what giving up would free from bytes, and tells when the first may go.
func (sh *shard) look(s *Store, now int64, bytes *[len(parts)]int64) (stuck int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var slots [len(parts)]int
	var rings [len(parts)]int64
	stuck = math.MaxInt64
	for i := range sh.n {
		v := sh.appraise(i, now)
		stuck = min(stuck, v.from)
		if v.used == 1 {
			continue
		}
		ring := ringBytes(&sh.slot(i).log)
		for level := whole; level >= 0 && v.used <= parts[level]; level-- {
			slots[level]++
			rings[level] += ring
		}
	}
	of := sh.rest
	tables := int64(len(sh.chunks))*chunkBytes + int64(len(sh.index))*4
	for level := range parts { // the whole at last
		of.slots = sh.n - slots[level]
		of.bytes = sh.left(of.slots, 0)
		of.frees[level] = rings[level] + tables - of.bytes
		bytes[level] -= of.frees[level]
	}
	sh.release(s, chunkSlots) // if nobody may go, no squeeze will
	return stuck
}

// attainable tells what was found by a look if giving up all that may go, but
// nothing of the key's own, makes room for what is lacking, or nil. It looks at
// no more shards than the budget allows.
func (s *Store) attainable(own *shard, keep hash, lacks need, now int64, budget *int) *rest {
	s.mu.Lock()
	idents := uint32(len(s.idents))
	s.mu.Unlock()

	own.mu.Lock()
	_, _, rings := own.held(keep, idents, now)
	own.mu.Unlock()
	if int64(len(s.shards))*shardBytes+rings+lacks.total > s.max {
		return nil // not even alone
	}

	enough := func(r *rest) bool {
		if *budget > 0 && r.looked < len(s.shards) && lacks.many() && r.bytes[little]+lacks.total > s.max {
			return false // others may have used less
		}
		needs := lacks.total
		if r.saw(s, s.number(keep)) {
			own.mu.Lock()
			defer own.mu.Unlock()
			slots, rings, _ := own.held(keep, idents, now) // counted among those that may go
			tables := own.left(min(own.rest.slots+slots, own.n), lacks.slots)
			needs = tables - own.rest.bytes + rings + lacks.bytes
		}
		return r.bytes[whole]+max(needs, 1) <= s.max
	}
	r := s.rest.Load()
	if r != nil && enough(r) && r.holds(s, now) {
		return r
	}
	if r == nil {
		s.looking.Lock()
	} else if !s.looking.TryLock() {
		if *budget = 0; enough(r) {
			return r
		}
		return nil
	}
	defer s.looking.Unlock()
	r = s.rest.Load()
	for looked := false; ; looked = true {
		switch found := r != nil && enough(r); {
		case found && (looked || r.holds(s, now)):
			return r
		case *budget == 0:
			return nil
		case found || r == nil || r.looked == len(s.shards) && !r.holds(s, now):
			first := int(s.number(keep))
			if r != nil { // where the last look ended there was something, and perhaps nowhere else
				first = r.first + r.looked - 1
			}
			r = s.look(first%len(s.shards), now)
		case r.looked == len(s.shards):
			return nil
		}
		*budget--
		r = r.next(s, now)
		s.rest.Store(r)
	}
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
