// Package heavyhitters finds the clients with the most refused and the most admitted requests, in bounded memory.
// Metrics cannot: a client's key must not be a label. Package sashadmin shows the clients on a page.
//
//	heavy, err := heavyhitters.New(20)
//	observer := core.Observers(heavy, core.LogErrors(slog.Default(), time.Minute))
//	limiter, err := core.New(core.Config{Name: "api", Store: store, Observer: observer, ...})
//	for _, c := range heavy.Top("api", "login", core.OutcomeRefused).Clients {
//		fmt.Printf("%q: %d to %d requests\n", c.Key, c.AtLeast, c.Requests)
//	}
//
// The counts are of this process since New or the last Reset: each replica has its own.
//
// # How it counts
//
// The algorithm is filtered space-saving (Homem and Carvalho, 2010) in a table of sets.
// A client belongs to one set by a hash with a random seed, so that no client can choose
// its set. A set counts 16 clients. A client beyond them is counted in one of 64 filters
// of the set, together with others, until the filter has counted as many requests as the
// lightest of the 16; then the client takes its place. There are at least 8
// places for each client that New is asked for.
//
// A count is never too low. It is too high by no more than its part of the set's
// requests: a sixteenth. So a client is in the table for certain while its share of the
// requests of its set is above a sixteenth, which in a table for k clients is a
// share of about 1/(8k) of all requests. Each answer says its own bounds, which are
// usually much closer.
package heavyhitters

import (
	"context"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
)

const (
	// maxK is the largest argument of New.
	maxK = 1000

	// maxRules is the largest number of rules with their own counts.
	maxRules = 100

	// otherName is the name for all rules beyond maxRules.
	otherName = "other"
)

// Clients counts requests by client. It is an observer of limiters, and safe for
// concurrent use. [New] makes one; the zero Clients cannot be used.
//
// A request is counted if a limit decides it, in the store or in a fallback. Peeks and decisions of a policy without a
// store are not counted. Each request counts 1, whatever its cost.
type Clients struct {
	k    int
	seed maphash.Seed

	mu    sync.Mutex                // held while a rule is added and while all is reset
	since atomic.Pointer[time.Time] // start of the counts
	rules atomic.Pointer[[]*rule]   // the slice is immutable once stored
}

// rule holds the tables of one rule.
type rule struct {
	limiter, name string
	tables        [outcomes]table // by core.OutcomeAdmitted and core.OutcomeRefused
}

// outcomes is the number of outcomes with rankings.
const outcomes = core.OutcomeRefused + 1

// New returns Clients with rankings of the k heaviest clients of each rule and outcome. It returns an error unless k is
// from 1 to 1,000.
//
// A rule takes between 2 and 5 KiB for each of the k clients, and at least 5 KiB, from its
// first request on. 100 rules have their own counts; all others are counted as the rule "other" of the limiter "other".
func New(k int) (*Clients, error) {
	if k < 1 || k > maxK {
		return nil, fmt.Errorf("sash: heavyhitters.New(%d): give from 1 to %d clients", k, maxK)
	}
	c := &Clients{k: k, seed: maphash.MakeSeed()}
	c.rules.Store(new([]*rule))
	c.since.Store(new(time.Now()))
	return c, nil
}

// Observe counts the request of e.
func (c *Clients) Observe(_ context.Context, e core.Event) {
	e.Shadow = false // shadow refusals count as refusals
	outcome := e.Outcome()
	switch {
	case e.Peek || e.Key == "":
		return
	case outcome == core.OutcomeFallbackAdmitted:
		outcome = core.OutcomeAdmitted
	case outcome == core.OutcomeFallbackRefused:
		outcome = core.OutcomeRefused
	case outcome >= outcomes:
		return
	}
	c.rule(e.Name, e.Rule).tables[outcome].count(maphash.String(c.seed, e.Key), e.Key)
}

// find returns the rule, or nil.
func (c *Clients) find(limiter, name string) *rule {
	for _, r := range *c.rules.Load() {
		if r.name == name && r.limiter == limiter {
			return r
		}
	}
	return nil
}

// rule returns the rule that counts the requests of the given one, and adds it if necessary.
func (c *Clients) rule(limiter, name string) *rule {
	if r := c.find(limiter, name); r != nil {
		return r
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.find(limiter, name); r != nil {
		return r
	}
	known := *c.rules.Load()
	if len(known) >= maxRules {
		limiter, name = otherName, otherName
		if r := c.find(limiter, name); r != nil {
			return r
		}
	}
	r := &rule{limiter: strings.Clone(limiter), name: strings.Clone(name)}
	for i := range r.tables {
		r.tables[i] = newTable(c.k)
	}
	more := append(known[:len(known):len(known)], r)
	c.rules.Store(&more)
	return r
}

// Reset clears the counts. Call it regularly, such as once an hour, so that the rankings are recent. Concurrent
// requests may count before or after it.
func (c *Clients) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range *c.rules.Load() {
		for i := range r.tables {
			r.tables[i].reset()
		}
	}
	c.since.Store(new(time.Now()))
}
