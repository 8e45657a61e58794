//go:build !short

package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/errs"
	"github.com/sashlimit/sash/internal/redistest"
)

// TestOpenNamesTheCause: the error of a decision that did not wait names what has opened the
// breaker, and its hint, also for rules that had nothing to do with that.
func TestOpenNamesTheCause(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	root := admin(t, server.Addr())
	for name, rdb := range map[string]redis.UniversalClient{
		"alone":       server.Client(t),
		"in pipeline": redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": server.Addr()}}),
	} {
		defer rdb.Close()
		store := redisstore.New(rdb)
		l := closedFor(t, store, patient)
		redistest.WaitFor(t, "a decision", func() error { return l.Allow(ctx, "k").Err })
		do(t, root, "REPLICAOF 127.0.0.1 1")
		waitOpen(t, l, "k")
		other := core.Must(l.Rule("other", core.PerMinute(1)))
		for range 50 {
			err := other.Allow(ctx, "k").Err
			hint := errs.HintOf(err)
			if !errors.Is(err, core.ErrUnavailable) || !mentions(err, "did not wait", server.Addr()+": ", "READONLY") ||
				!strings.Contains(hint, "give the master's address") || strings.Count(err.Error(), "sash: ") != 1 {
				t.Fatalf("%s: %v; hint: %s", name, err, hint)
			}
		}
		do(t, root, "REPLICAOF NO ONE")
	}
}

// TestForeign: foreign values, which are told without the client's name and replaced, do not speak against the server.
func TestForeign(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	server := redistest.Start(t)
	rdb := server.Client(t)
	store := redisstore.New(rdb)
	l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerHour(1000)}, Timeout: patient})
	for i := range 10 { // more than open a breaker
		client := fmt.Sprint("client ", i)
		rdb.Set(ctx, redisstore.Keys(store, l, client)[0], "a text", 0)
		if uses, err := l.Usage(ctx, client); uses != nil || !errors.Is(err, redisstore.ErrCorrupt) {
			t.Errorf("a Usage, which leaves the value: %+v, %v", uses, err)
		}
		d, replaced := l.Allow(ctx, client), l.Allow(ctx, client)
		if !d.Allowed || !errors.Is(d.Err, core.ErrStore) || !mentions(d.Err, "sash:{...}:l1h0m0s") ||
			mentions(d.Err, "client") || !replaced.Allowed || replaced.Err != nil {
			t.Errorf("got %+v, want an admission by the policy, then %+v, want one that is counted", d, replaced)
		}
	}
	if state := store.Stats().Breakers[0].State; state != redisstore.StateClosed {
		t.Errorf("the breaker is %s", state)
	}
}
