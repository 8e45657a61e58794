// Package redisstore keeps counts in Redis: on a single server, behind
// Sentinel, or on a Cluster. Every process on the same data shares them.
//
// A decision is one round trip and one script, whatever the number of limits, and
// those that wait at the same time share one. A client that has been refused is
// refused without asking until it may pass, but for one request a second. The clock
// is the server's. Constructors do not talk to Redis, so a program starts while
// Redis is down.
package redisstore

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
)

// DefaultPrefix begins every key of a store made without [WithPrefix].
const DefaultPrefix = "sash"

// Store is a [core.Store] in Redis. It is safe for concurrent use.
type Store struct {
	client  client
	denials *denials
	leases  *leases // nil without WithLease
	prefix  string
	mu      sync.Mutex
	bound   atomic.Uint64         // rules
	batches map[string]*batches   // by script; on a single server
	owned   redis.UniversalClient // closed by Close; nil if the client is the user's
	err     error                 // of a constructor; Bind returns it
}

var _ core.Store = (*Store)(nil)

// Option is an option of [New] and [Open].
type Option func(*Store)

// WithPrefix sets what every key begins with, [DefaultPrefix] if not given:
// stores with the same prefix on the same Redis share their counts. It is 1 to
// 128 bytes without braces.
func WithPrefix(prefix string) Option {
	return func(s *Store) {
		s.prefix = prefix
		if err := checkPrefix(prefix); err != nil {
			s.err = err
		}
	}
}

// New returns a store on the client that a program has already: a
// [redis.Client] (for a single server, or from [redis.NewFailoverClient] for
// Sentinel), a [redis.ClusterClient], or a [redis.Ring]. Its settings need no
// change: whatever its timeouts and retries, a decision waits no longer than
// Config.Timeout and its script is sent once. The client stays the caller's to
// close.
//
// Hooks on a redis.Client do not see what the store sends through it: go-redis
// leaves them out where it is given a timeout for some commands. Those on the
// nodes of a cluster do. Config.Observer hears of every decision.
//
// New does not talk to Redis. What is wrong with its arguments is an error of
// [core.New].
func New(rdb redis.UniversalClient, options ...Option) *Store {
	s := &Store{prefix: DefaultPrefix, denials: newDenials()}
	for _, o := range options {
		o(s)
	}
	if isNil(rdb) {
		s.err = errors.New("sash: redisstore.New(nil): give a client, such as redis.NewClient(&redis.Options{Addr: \"127.0.0.1:6379\"})")
		return s
	}
	s.client.init(rdb)
	return s
}

func isNil(rdb redis.UniversalClient) bool {
	switch c := rdb.(type) {
	case nil:
		return true
	case *redis.Client:
		return c == nil
	case *redis.ClusterClient:
		return c == nil
	case *redis.Ring:
		return c == nil
	}
	return false
}

// Open returns a store with a client of its own for the single server at url,
// such as "redis://user:password@127.0.0.1:6379/0" or "rediss://..." for TLS.
// The client heeds deadlines and does not retry. [Store.Close] closes it. Open
// does not talk to Redis; its error is about the URL.
func Open(url string, options ...Option) (*Store, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		// The URL may hold a password: its text stays out of the error.
		return nil, fmt.Errorf("sash: redisstore.Open: the URL is not one of a Redis server: give redis://[user:password@]host:port[/db], rediss:// or unix://")
	}
	o.ContextTimeoutEnabled = true
	o.MaxRetries = -1
	o.DialerRetries = 1
	rdb := redis.NewClient(o)
	s := New(rdb, options...)
	s.owned = rdb
	return s, nil
}

// Close closes the client that [Open] made. On a store of [New] it does
// nothing: that client is the caller's.
func (s *Store) Close() error {
	if s.owned == nil {
		return nil
	}
	return s.owned.Close()
}

// Bind implements [core.Store].
func (s *Store) Bind(rule core.Rule) (core.Counts, error) {
	if s.err != nil {
		return nil, s.err
	}
	if len(rule.Limits) > maxLimits {
		return nil, fmt.Errorf("sash: %d limits in one rule: redisstore takes at most %d; spread them over several rules", len(rule.Limits), maxLimits)
	}
	c := &counts{store: s, id: s.bound.Add(1), rule: rule, script: newScript(decideSource(rule.Limits, false)), args: limitArgs(rule.Limits)}
	for _, l := range rule.Limits {
		c.suffixes = append(c.suffixes, suffix(l))
	}
	c.numkeys = strconv.Itoa(len(c.suffixes))
	c.batches = s.batchesFor(c.script)
	if s.leases != nil {
		return s.leases.bind(c), nil
	}
	return c, nil
}

// batchesFor is where requests wait that are decided by the same script, or nil
// unless all keys are on one server: on a cluster a script has keys of one slot.
func (s *Store) batchesFor(script script) *batches {
	if s.client.single == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.batches == nil {
		s.batches = map[string]*batches{}
	}
	b := s.batches[script.sha]
	if b == nil {
		b = newBatches(&s.client, script)
		s.batches[script.sha] = b
	}
	return b
}
