package redisstore

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/denycache"
	"github.com/sashlimit/sash/core/internal/lease"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
	"github.com/sashlimit/sash/core/redisstore/internal/server"
	"github.com/sashlimit/sash/internal/errs"
)

// DefaultPrefix begins every key of a store made without [WithPrefix].
const DefaultPrefix = "sash"

// Store is a [core.Store] in Redis, made by [New] or [Open]. It is safe for
// concurrent use. A rule on it has at most 16 limits.
type Store struct {
	client      *server.Client // nil if the store was not made
	refusals    *denycache.Cache
	noDenyCache bool         // WithoutDenyCache
	leases      *lease.Table // nil without WithLease
	prefix      string
	close       func() error // closes the client of Open, once; nil if the client is the user's
	err         error        // of a constructor; Bind returns it

	noSharedScripts bool                                    // see WithoutSharedScripts
	notice          atomic.Pointer[func(code, text string)] // of the first rule that has one

	mu              sync.Mutex
	scripts         map[string]script.Script // by script.Shape, maxScripts at most
	isWarm          bool                     // a rule has been bound
	shortestTimeout time.Duration            // Config.Timeout of the rules; 0 if there is no rule
}

var _ core.Store = (*Store)(nil)

// Option is an option of [New] and [Open].
type Option func(*Store)

// WithPrefix sets what every key begins with, [DefaultPrefix] if not given:
// stores with the same prefix on the same Redis share their counts. It is 1 to
// 128 bytes, any but '{', '}' and newline. In Redis's ACL a key pattern such as
// ~sash:* names the keys of a prefix; '*', '?', '[' and '\' in the prefix mean
// something else there.
func WithPrefix(prefix string) Option {
	return func(s *Store) {
		s.prefix = prefix
		// The first braces in a key decide its slot, and a newline ends a key in the script's reply.
		if prefix == "" || len(prefix) > 128 || strings.ContainsAny(prefix, "{}\n") {
			s.err = fmt.Errorf("sash: redisstore.WithPrefix(%.128q): give 1 to 128 bytes without braces and newlines, "+
				"such as \"sash\"", prefix)
		}
	}
}

// WithoutDenyCache makes each request ask Redis. Without this option a process refuses a client that was refused by
// itself, by its own clock, and asks once a second: a Reset, a raised limit and a test's clock, as SetTime of miniredis
// moves it, show up to a second late.
func WithoutDenyCache() Option { return func(s *Store) { s.noDenyCache = true } }

// New returns a store on the client that a program has already: a
// [redis.Client] (for a single server, or from [redis.NewFailoverClient] for
// Sentinel), a [redis.ClusterClient], a [redis.Ring], or a program's own type
// around one of them. Its settings need no change: whatever its timeouts and
// retries, a decision waits no longer than Config.Timeout and its script is sent
// once. The client stays the caller's to close.
//
// A caller whose context ends leaves at once, with one exception: on a redis.Client, if
// Config.Timeout is 100 ms to 1 s, a caller may wait for the reply on its own goroutine,
// which saves a lone caller a quarter of the time. When it is cancelled it leaves with the
// reply or at Config.Timeout. A Dialer of the program's own must return connections that
// heed their deadlines.
//
// Around a client of its own type a program gives up some speed: each decision is a command of its own, and one
// breaker stands for all servers. A Ring moves the clients of a shard that is
// down to other shards and back: each time a client may get its limit once more, and units
// stay counted that are given back elsewhere. For exact counts on several servers use a
// Cluster. Hooks on a redis.Client do not see what the store sends through it; those on the
// nodes of a cluster or a ring do.
//
// New does not talk to Redis. What is wrong with its arguments is an error of
// [core.New].
func New(rdb redis.UniversalClient, options ...Option) *Store {
	s := &Store{prefix: DefaultPrefix, refusals: denycache.New(), scripts: map[string]script.Script{}}
	for i, o := range options {
		if o == nil {
			s.err = fmt.Errorf("sash: option %d of redisstore is nil: leave it out", i+1)
			return s
		}
		o(s)
	}
	if errs.IsNil(rdb) || isZero(rdb) {
		s.err = errors.New("sash: redisstore.New(nil): give a client, " +
			"such as redis.NewClient(&redis.Options{Addr: \"127.0.0.1:6379\"})")
		return s
	}
	s.client = server.New(rdb, server.Config{
		Prefix: s.prefix, SharedScripts: !s.noSharedScripts, Notify: s.notify,
	})
	return s
}

// WithoutSharedScripts makes a store send a script of its own for each request. Without it, requests of several clients
// that wait together for a single server share one script, once a probe has found that all their keys are on one
// server: behind a proxy that spreads keys over several servers they are not. The probe counts some clients of its own,
// and deletes them. Requests that wait together share a round trip with and without it.
func WithoutSharedScripts() Option { return func(s *Store) { s.noSharedScripts = true } }

// notify gives a notice to the observer of the store.
func (s *Store) notify(code, text string) {
	if observer := s.notice.Load(); observer != nil {
		(*observer)(code, strings.TrimPrefix(text, "sash: "))
	}
}

// isZero reports whether rdb is a client of go-redis that its constructor has not made.
func isZero(rdb redis.UniversalClient) bool {
	switch rdb.(type) {
	case *redis.Client, *redis.ClusterClient, *redis.Ring:
		return reflect.ValueOf(rdb).Elem().IsZero()
	}
	return false
}

// errZeroStore is the error of a store that is nil or a zero value.
var errZeroStore = errors.New("sash: the *redisstore.Store was not made by redisstore.New or redisstore.Open: " +
	"make it with one of them")

// ready returns what keeps the store from being used: how it was made.
func (s *Store) ready() error {
	if s == nil || s.err == nil && s.client == nil {
		return errZeroStore
	}
	return s.err
}

// ErrCorrupt is in the error of a decision that found, at a key of the store, a
// value that is not the store's. The value has been deleted, unless the request
// was a peek; the next request is counted again.
var ErrCorrupt = script.ErrCorrupt

// Open returns a store with a client of its own for the single server at url,
// such as "redis://user:password@127.0.0.1:6379/0" or "rediss://..." for TLS.
// The client heeds deadlines and does not retry. [Store.Close] closes it. Open
// does not talk to Redis; its error is about the URL.
func Open(url string, options ...Option) (s *Store, err error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		// The URL may hold a password: its text stays out of the error.
		return nil, errors.New("sash: redisstore.Open: the URL is not one of a Redis server: " +
			"give redis://[user:password@]host:port[/db], rediss:// or unix://")
	}
	o.ContextTimeoutEnabled = true
	o.MaxRetries = -1
	o.DialerRetries = 1
	defer func() {
		if p := recover(); p != nil { // of go-redis, at a size of the pool that is impossible
			s, err = nil, fmt.Errorf("sash: redisstore.Open: an option in the URL, such as pool_size, "+
				"is not possible: %v", p)
		}
	}()
	rdb := redis.NewClient(o)
	s = New(rdb, options...)
	s.close = sync.OnceValue(rdb.Close)
	return s, nil
}

// Close closes the client that [Open] made; closing again does nothing. On a
// store of [New] it does nothing: that client is the caller's.
func (s *Store) Close() error {
	if s == nil {
		return errZeroStore
	}
	if s.close == nil {
		return nil
	}
	return s.close()
}

// maxScripts bounds the scripts that a store caches. Rules may be bound while serving, and of 16 limits alone there are
// 4^16 scripts.
const maxScripts = 128

// script returns the script for the limits of a rule. To render one takes most of a millisecond.
func (s *Store) script(lease bool, limits []core.Limit) script.Script {
	shape := script.Shape(lease, limits)
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.scripts[shape]; ok {
		return known
	}
	if len(s.scripts) >= maxScripts {
		clear(s.scripts)
	}
	added := script.Decide(lease, limits)
	s.scripts[shape] = added
	return added
}

// Bind implements [core.Store].
func (s *Store) Bind(rule core.Binding) (core.Ledger, error) {
	if err := s.ready(); err != nil {
		return nil, err
	}
	if len(rule.Limits) > script.MaxLimits {
		return nil, fmt.Errorf("sash: %d limits in one rule: redisstore takes at most %d; "+
			"spread them over several rules", len(rule.Limits), script.MaxLimits)
	}
	s.mu.Lock()
	if s.shortestTimeout == 0 || rule.Timeout > 0 && rule.Timeout < s.shortestTimeout {
		s.shortestTimeout = rule.Timeout
	}
	warm := !s.isWarm
	s.isWarm = true
	s.mu.Unlock()
	l := s.newLedger(rule)
	if warm {
		s.client.Warm()
	}
	if rule.Notice != nil && s.notice.CompareAndSwap(nil, &rule.Notice) {
		go s.warnOfEviction()
	}
	var chain core.Ledger = l
	if !s.noDenyCache {
		chain = s.refusals.Wrap(rule, l)
	}
	if s.leases != nil {
		chain = s.leases.Wrap(chain, rule.Limits)
	}
	return chain, nil
}

// WithLease makes a process take units of a busy client's limit ahead, and
// spend them without asking Redis: at most size at a time, for at most
// lifetime. It is for a client that several processes decide about thousands
// of times a second. It gives up exactness on one side only: requests may be
// refused early, never admitted too many. size is from 2 to
// [core.MaxLogRequests], lifetime from 1 ms to a minute, several round trips to
// Redis at least; WithLease(1000, 100*time.Millisecond) is a start.
//
// A lease is at most a tenth of the smallest limit of its rule and lasts at most
// a tenth of the shortest window. So a rule that allows less than 20, or has a
// window under 10 ms, is decided as without WithLease, and so is one that has a
// SlidingCounter or a Bucket among its limits. So are clients that are not busy in this
// process: only one that asks for some four units in a lifetime is leased, and
// then as much as it asks for in half a lifetime. At most 16,384 clients are leased
// at a time.
//
// Reset ends the leases of this process on the client; those of others live on
// for at most their lifetime. While Redis fails, leases are spent;
// then the policy decides. What leases promise in numbers, and what a decision
// tells that was made without Redis, is in docs/redis.md.
func WithLease(size int64, lifetime time.Duration) Option {
	return func(s *Store) {
		switch {
		case size < lease.MinSize || size > core.MaxLogRequests:
			s.err = fmt.Errorf("sash: redisstore.WithLease(%d, %v): a lease is of %d to %d units, such as 1000; "+
				"to have none, leave WithLease out", size, lifetime, lease.MinSize, core.MaxLogRequests)
		case lifetime < lease.MinLifetime || lifetime > lease.MaxLifetime:
			s.err = fmt.Errorf("sash: redisstore.WithLease(%d, %v): a lease lasts from %v to %v, "+
				"such as 100*time.Millisecond", size, lifetime, lease.MinLifetime, lease.MaxLifetime)
		default:
			s.leases = lease.NewTable(lease.Terms{Size: size, Lifetime: lifetime})
		}
	}
}
