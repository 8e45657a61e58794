package memstore

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

const (
	// DefaultMaxBytes is the bound of a store made without [WithMaxBytes].
	DefaultMaxBytes = 128 << 20

	// MinMaxBytes is the least argument of [WithMaxBytes].
	MinMaxBytes = 64 << 10

	// A store has one shard for each bytesPerShard.
	bytesPerShard = 512 << 10
	maxShards     = 1024

	maxMaxBytes int64 = maxShards * bytesPerShard << 10 // which an int of 32 bits does not hold
)

// Store is an in-process [core.Store]. It is safe for concurrent use. A client under one limit takes about 70 bytes,
// and with a SlidingLog about 9 more per admitted request in the window from the third on, or about 18 per request once
// a cost is not 1. With a CoarseLog it takes 512 more once requests count in two sixtieths of the window. The length of
// its key does not matter: keys are kept as 64-bit hashes under a random seed. The first clients take up to 370 bytes
// each, in a store of the default size all together up to 0.1 MB.
type Store struct {
	max   int64
	clock func() time.Time
	err   error // of an option; Bind returns it

	common atomic.Int64 // bytes that any shard may borrow

	share       int64 // bytes that each shard can always have
	sketchBytes int64 // bytes of a shard's sketch, besides
	largeRing   int64 // a ring of more bytes is a long one

	base       time.Time // the clock counts from here, monotonically
	baseMicros int64

	seed   maphash.Seed
	shards []shard
	shift  int // of a hash, to get the shard's index

	rules rules
}

var _ core.Store = (*Store)(nil)

// Option is an option of [New].
type Option func(*Store)

// WithMaxBytes bounds the memory of the store, all tables counted. The default
// is [DefaultMaxBytes], the least [MinMaxBytes]. Up to a quarter of it is for the
// sketches of evicted clients, and takes memory only when something was evicted.
//
// A full store evicts clients that have used little of their limits, and their
// units go on counting: no client is admitted above a limit, but for a debt
// of a Bucket (see the documentation of the package). A client that
// was evicted, or a new one that shares an entry of the sketch, may be refused
// early, with a RetryAfter of up to two windows, and with a CoarseLog a sixtieth more
// (longer if a store has rules over more than 28 different windows). A log of many
// entries that finds no memory merges them, so that they count for a little longer.
//
// The only case of [core.ErrStoreFull] is a rule with so many limits that the slots
// and logs of one client exceed a shard's share.
func WithMaxBytes(n int64) Option {
	return func(s *Store) {
		if n < MinMaxBytes || n > maxMaxBytes {
			s.err = fmt.Errorf("sash: memstore.WithMaxBytes(%d): give from %d (64 KiB) to %d (512 GiB) bytes",
				n, MinMaxBytes, maxMaxBytes)
			return
		}
		s.max = n
	}
}

// WithClock replaces the monotonic clock, for tests. The clock must be safe for
// concurrent use. Where it steps back, time stands still for a client until the clock
// has caught up; before 1970 it stands still, too.
func WithClock(now func() time.Time) Option {
	return func(s *Store) {
		if now == nil {
			s.err = fmt.Errorf("sash: memstore.WithClock(nil): give a clock, such as time.Now")
		}
		s.clock = now
	}
}

// New returns an empty store. An option that is nil or out of its range is an
// error of [core.New].
func New(options ...Option) *Store {
	s := &Store{max: DefaultMaxBytes, base: time.Now(), seed: maphash.MakeSeed()}
	s.rules.idents, s.rules.infoNumbers = map[hash]uint32{}, map[window.Limit]uint32{}
	s.rules.infos.Store(new([]limitInfo))
	s.baseMicros = s.base.UnixMicro()
	for i, o := range options {
		if o == nil {
			s.err = fmt.Errorf("sash: option %d of memstore is nil: leave it out", i+1)
			continue
		}
		o(s)
	}
	s.divide()
	return s
}

// divide makes the shards and divides the bytes among them.
func (s *Store) divide() {
	n := floorPower(max(1, min(maxShards, s.max/bytesPerShard)))
	s.shards, s.shift = make([]shard, n), 64-bits.TrailingZeros64(uint64(n))
	s.sketchBytes = floorPower(s.max / n / sketchPart)
	rest := s.max - n*(shardBytes+s.sketchBytes)
	s.share = rest / commonPart / n
	s.largeRing = min(shortRing, s.share/minShortRings)
	s.common.Store(rest - n*s.share)
	for i := range s.shards {
		s.shards[i].store = s
	}
}

// floorPower returns the greatest power of two that is at most n.
func floorPower(n int64) int64 { return 1 << (bits.Len64(uint64(n)) - 1) }

// Bind implements [core.Store].
func (s *Store) Bind(rule core.Binding) (core.Ledger, error) {
	if s == nil || len(s.shards) == 0 {
		return nil, errors.New("sash: this *memstore.Store was not made by memstore.New: write memstore.New()")
	}
	if s.err != nil {
		return nil, s.err
	}
	c := &ledger{store: s, limits: make([]limit, len(rule.Limits))}
	for i, l := range rule.Limits {
		identNumber, infoNumber, err := s.register(rule, l)
		if err != nil {
			return nil, err
		}
		c.limits[i] = limit{l, (*s.rules.infos.Load())[infoNumber], identNumber, infoNumber}
	}
	return c, nil
}

// lock locks a shard and returns its time, which never steps back. A caller that read
// the clock and then waited for the lock must not decide at a time before units were
// removed as expired.
func (s *Store) lock(sh *shard) (now int64) {
	if s.clock != nil {
		now = s.clock().UnixMicro()
	} else {
		now = s.baseMicros + time.Since(s.base).Microseconds()
	}
	sh.mu.Lock()
	sh.now = max(sh.now, now)
	return sh.now
}

// hash stands for a key. Two clients whose keys have the same hash share their counts: neither is admitted above its
// limit, and they may be refused early. An outsider does not know the seed, and learns of no hash, so can only guess:
// of a billion keys that are sent against a million clients, one meets a client in one of 18,000 stores. By chance two
// of a million clients meet in one of 37 million stores.
//
// The highest bits choose the shard, the lowest 24 the place in its index, and the next 8 are the tag there. A sketch
// is shared by what its shard has evicted, and takes the low bits, too, and 16 above them.
type hash uint64

func (s *Store) hash(key string) hash { return hash(maphash.String(s.seed, key)) }

func (s *Store) shard(h hash) *shard { return &s.shards[uint64(h)>>s.shift&uint64(len(s.shards)-1)] }
