package live

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
)

// Stores holds the stores of the page's limiters. It is safe for concurrent use.
type Stores struct {
	replicas [Replicas]core.Store
	switched core.Store // the one that can be taken away
	fallback core.Policy

	kind  string
	ping  func(context.Context) error // past the switch
	cut   func(away bool)
	close []func()

	mu      sync.Mutex
	away    bool
	changed time.Time // when away did; zero if the store was silent since
}

// OpenStores returns stores on the Redis of url, or in memory if url is empty. It does not talk to Redis.
func OpenStores(url string) (*Stores, error) {
	s := &Stores{fallback: core.Fallback(memstore.New(), 1)}
	if url == "" {
		s.inMemory()
		return s, nil
	}
	return s, s.inRedis(url)
}

// inMemory gives all replicas one store in memory, which they share as they would share a Redis.
func (s *Stores) inMemory() {
	s.kind = "memory"
	s.ping = func(context.Context) error { return nil }
	shared := memstore.New()
	for i := range s.replicas {
		s.replicas[i] = shared
	}
	away := &switched{Store: shared}
	s.switched, s.cut = away, away.away.Store
}

// inRedis gives each replica a store with a client of its own, and the store that can be taken away a client whose
// connections can be cut. Another client asks whether the server is there.
func (s *Stores) inRedis(url string) error {
	s.kind = "Redis"
	for i := range s.replicas {
		store, err := redisstore.Open(url)
		if err != nil {
			return err
		}
		s.replicas[i] = store
		s.close = append(s.close, func() { _ = store.Close() })
	}
	options, err := redis.ParseURL(url) // after Open, whose error says what a URL looks like
	if err != nil {
		return err
	}
	options.ContextTimeoutEnabled, options.MaxRetries = true, -1
	cuttable, way := *options, &way{dial: redis.NewDialer(options), conns: map[*wayConn]bool{}}
	cuttable.Dialer = way.connect
	client := redis.NewClient(&cuttable)
	s.switched, s.cut = redisstore.New(client), way.cut
	options.PoolSize = 1 // a dead server is logged once
	direct := redis.NewClient(options)
	s.ping = func(ctx context.Context) error { return direct.Ping(ctx).Err() }
	s.close = append(s.close, func() { _ = client.Close() }, func() { _ = direct.Close() })
	return nil
}

// Store returns the store of the replicas, for other limits of the same program.
func (s *Stores) Store() core.Store { return s.replicas[0] }

// Kind returns "memory" or "Redis".
func (s *Stores) Kind() string { return s.kind }

// Take takes the store of the policies away, or gives it back.
func (s *Stores) Take(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if away == s.away {
		return
	}
	s.away, s.changed = away, time.Now()
	s.cut(away)
}

// Look reports whether the store of the policies is taken away, whether the store itself answers, and when the switch
// was used; a zero time if never, or if the store has stopped to answer since.
func (s *Stores) Look() (away, answers bool, switched time.Time) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	err := s.ping(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.changed = time.Time{}
	}
	return s.away, err == nil, s.changed
}

// Close ends the connections of the stores.
func (s *Stores) Close() {
	for _, c := range s.close {
		c()
	}
}
