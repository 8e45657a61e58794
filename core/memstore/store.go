// Package memstore keeps counts in the memory of this process.
//
// It is bounded in bytes, frees what has expired as it goes, and starts no
// goroutine, so there is nothing to close. Counts are gone when the process
// ends and are not shared with other processes; see package redisstore for
// counts that are.
package memstore

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

const (
	// DefaultMaxBytes is the bound of a store made without [WithMaxBytes].
	DefaultMaxBytes = 128 << 20

	// MinMaxBytes is the least that [WithMaxBytes] takes.
	MinMaxBytes = 64 << 10

	// One shard for so many bytes: few enough keys that looking through all of
	// them, which a full store does now and then, takes well under a millisecond.
	bytesPerShard = 512 << 10
	maxShards     = 1024
)

// Store is an in-process [core.Store]. It is safe for concurrent use. A client
// under one limit takes about 80 bytes, and with a SlidingLog about 9 more per
// admitted request in the window but the first, however long its key is: keys
// are kept as 128-bit hashes under random seeds.
type Store struct {
	max   int64
	clock func() time.Time
	err   error // of an option; Bind returns it

	used  atomic.Int64 // bytes held, all shards and their tables together
	stuck atomic.Int64 // until when no shard can give anything up, in microseconds; 0: not known, or looking

	// What giving up all that may go would leave; see evict.go.
	rest    atomic.Pointer[rest]
	looking sync.Mutex  // one at a time finds it out
	changed atomic.Bool // since then, by a Reset or another limit

	base       time.Time // the clock counts from here, monotonically
	baseMicros int64

	seeds  [2]maphash.Seed
	shards []shard
	shift  int // of a hash, to get the shard's index

	mu     sync.Mutex
	idents map[ident]uint32
	bounds bounds
}

// ident is what makes two limits share a count.
type ident struct {
	name, rule, limit string
	algorithm         core.Algorithm
	window            time.Duration
}

var _ core.Store = (*Store)(nil)

// Option is an option of [New].
type Option func(*Store)

// WithMaxBytes bounds the memory of the store, all tables counted. The default
// is [DefaultMaxBytes], the least [MinMaxBytes]. When the store is full, a
// newcomer takes the place of the key with the least to remember: the one that
// has used the smallest part of its limit. A key at its limit is never given
// up, so a flood buys no blocked client its quota back; when nothing else can
// go, a newcomer gets the limiter's OnStoreError policy with
// [core.ErrStoreFull].
func WithMaxBytes(n int64) Option {
	return func(s *Store) {
		if n < MinMaxBytes || n > maxShards*bytesPerShard<<10 {
			s.err = fmt.Errorf("sash: memstore.WithMaxBytes(%d): give from %d (64 KiB) to %d (512 GiB) bytes", n, MinMaxBytes, maxShards*bytesPerShard<<10)
			return
		}
		s.max = n
	}
}

// WithClock replaces the monotonic clock, for tests. The clock is called with
// a lock held and must be safe for concurrent use. A step back delays quota; what
// had expired before it may be forgotten.
func WithClock(now func() time.Time) Option {
	return func(s *Store) {
		if now == nil {
			s.err = fmt.Errorf("sash: memstore.WithClock(nil): give a clock, such as time.Now")
		}
		s.clock = now
	}
}

// New returns an empty store. An option that is out of its range is an error
// of [core.New].
func New(options ...Option) *Store {
	s := &Store{max: DefaultMaxBytes, base: time.Now(), idents: map[ident]uint32{}}
	s.baseMicros = s.base.UnixMicro()
	for i := range s.seeds {
		s.seeds[i] = maphash.MakeSeed()
	}
	for _, o := range options {
		o(s)
	}
	n, bits := 1, 0
	for n < maxShards && int64(2*n*bytesPerShard) <= s.max {
		n, bits = 2*n, bits+1
	}
	s.shards, s.shift = make([]shard, n), 64-bits
	rests := make([]shardRest, n)
	for i := range s.shards {
		s.shards[i].bounds, s.shards[i].rest = &s.bounds, &rests[i]
	}
	s.used.Store(int64(n) * shardBytes)
	return s
}

// Bytes is how much memory the store holds at the moment, all tables counted.
// It never exceeds the bound.
func (s *Store) Bytes() int64 { return s.used.Load() }

// Bind implements [core.Store].
func (s *Store) Bind(rule core.Rule) (core.Counts, error) {
	if s.err != nil {
		return nil, s.err
	}
	c := &counts{store: s, limits: make([]limit, len(rule.Limits))}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, l := range rule.Limits {
		id := ident{rule.Name, rule.Rule, l.Name, l.Algorithm, l.Window}
		n, ok := s.idents[id]
		if !ok {
			n = uint32(len(s.idents))
			s.idents[id] = n
		}
		w := window.Limit{N: l.Requests, W: l.Window.Microseconds()}
		c.limits[i] = limit{l, w, n, s.bounds.number(bound{w, l.Algorithm == core.SlidingLog})}
	}
	return c, nil
}

// lock takes a shard's lock and tells the time there, which never steps back
// unless the clock of WithClock does.
func (s *Store) lock(sh *shard) (now int64) {
	if s.clock != nil {
		sh.mu.Lock()
		return s.clock().UnixMicro()
	}
	now = s.baseMicros + time.Since(s.base).Microseconds() // before, to hold the lock for less
	sh.mu.Lock()
	return sh.at(s, now)
}

// at tells the time in a shard, whose lock is held, to who read the clock at now
// and perhaps elsewhere. From then on it is no earlier there: somebody who has
// read the clock and waits for the lock must not decide as of a time at which
// something counted that has been removed since.
func (sh *shard) at(s *Store, now int64) int64 {
	if s.clock != nil {
		return now
	}
	sh.now = max(sh.now, now)
	return sh.now
}

// hash stands for a key. An outsider knows neither seed, so cannot make two
// keys meet; by chance, among a billion keys, two meet once in 10^20 stores.
type hash struct{ low, high uint64 }

func (s *Store) hash(key string) hash {
	return hash{maphash.String(s.seeds[0], key), maphash.String(s.seeds[1], key)}
}

func (s *Store) shard(h hash) *shard { return &s.shards[s.number(h)] }

// number is that of a key's shard.
func (s *Store) number(h hash) uint64 { return h.low >> s.shift & uint64(len(s.shards)-1) }

// reserve takes n bytes of what is free; a negative n gives them back.
func (s *Store) reserve(n int64) bool {
	if n <= 0 {
		if n < 0 {
			s.used.Add(n)
		}
		return true
	}
	for {
		used := s.used.Load()
		if used+n > s.max {
			return false
		}
		if s.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}
