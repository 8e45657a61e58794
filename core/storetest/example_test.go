package storetest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/model"
	"github.com/sashlimit/sash/core/storetest"
)

// naive is a complete store in the simplest form: a map, a lock, and the arithmetic of package model. Its map grows
// with the clients: it is to be read, not to be run.
type naive struct {
	start time.Time

	mu      sync.Mutex
	clients map[identity]*model.Client
}

// identity is the key of the counts of a client under a rule. The model tells the limits apart.
type identity struct{ limiter, rule, client string }

func newNaive() *naive {
	return &naive{start: time.Now(), clients: map[identity]*model.Client{}}
}

// Bind implements core.Store.
func (s *naive) Bind(rule core.Binding) (core.Ledger, error) { return &counts{s, rule}, nil }

// lock takes the lock, for a call that then returns the counts of a client, and the time. The clock never steps back,
// as time.Since uses the monotonic clock.
func (c *counts) lock(client string) (*model.Client, time.Time) {
	s, id := c.store, c.identity(client)
	s.mu.Lock()
	if s.clients[id] == nil {
		s.clients[id] = &model.Client{}
	}
	return s.clients[id], s.start.Add(time.Since(s.start)).Truncate(time.Microsecond)
}

// counts implements core.Ledger.
type counts struct {
	store *naive
	rule  core.Binding
}

func (c *counts) identity(client string) identity { return identity{c.rule.Name, c.rule.Rule, client} }

// Immediate implements core.Immediate: no call waits except for the lock.
func (c *counts) Immediate() {}

// Take implements core.Ledger.
func (c *counts) Take(_ context.Context, ask core.Ask) core.Decision {
	client, now := c.lock(ask.Key)
	defer c.store.mu.Unlock()
	limits := c.rule.Limits
	if ask.Override != nil && ask.Override.Limits != nil {
		limits = ask.Override.Limits
	}
	return client.Ask(limits, now, ask)
}

// Usage implements core.Ledger.
func (c *counts) Usage(_ context.Context, key string) ([]core.Usage, error) {
	client, now := c.lock(key)
	defer c.store.mu.Unlock()
	return client.Usage(c.rule.Limits, now), nil
}

// Return implements core.Ledger.
func (c *counts) Return(_ context.Context, back core.Refund) (int64, error) {
	client, now := c.lock(back.Key)
	defer c.store.mu.Unlock()
	return client.Return(c.rule.Limits, now, back), nil
}

// Reset implements core.Ledger.
func (c *counts) Reset(_ context.Context, client string) error {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	delete(c.store.clients, c.identity(client))
	return nil
}

// A store of your own is proved by the suite.
func Example() {
	var t *testing.T // the argument of TestStore
	storetest.Run(t, func(t *testing.T) core.Store { return newNaive() })
}
