package denycache

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

// TestLifetime: a refusal is cached from the time of the request to its earliest end, for one rule and cost. One
// caller a second checks it.
func TestLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := New()
		rule := all.Rule(bound)
		sent := time.Now()
		time.Sleep(300 * ms) // the answer is slow
		rule.Record("k", 1, sent, refusalFor(2500*ms))
		time.Sleep(200 * ms)
		want := refusalFor(2300 * ms)
		want.At = want.At.Add(200 * ms)
		if got := check(t, rule, "k", 1, true); got != want {
			t.Errorf("200 ms after the answer: %+v, want %+v", got, want)
		}
		check(t, rule, "k", 2, false)
		check(t, rule, "another", 1, false)
		check(t, all.Rule(bound), "k", 1, false)
		time.Sleep(500*ms - 1)
		check(t, rule, "k", 1, true)
		time.Sleep(time.Nanosecond) // a second after the request
		check(t, rule, "k", 1, false)
		check(t, rule, "k", 1, true) // while that caller checks
		time.Sleep(time.Second)
		check(t, rule, "k", 1, false)
		check(t, rule, "k", 1, true)
		time.Sleep(500*ms - 1)
		check(t, rule, "k", 1, true)
		time.Sleep(time.Nanosecond) // the retry moment, by the server's clock at the latest
		check(t, rule, "k", 1, false)
		check(t, rule, "k", 1, false)
	})
}

// TestAbandon: if the caller that checks leaves, one other caller checks, and not all at once.
func TestAbandon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := New().Rule(bound)
		rule.Abandon("k", 1) // nothing is cached
		rule.Record("k", 1, time.Now(), refusalFor(time.Hour))
		time.Sleep(time.Second)
		for range 3 {
			check(t, rule, "k", 1, false)
			rule.Abandon("another", 1)
			rule.Abandon("k", 2)
			time.Sleep(500 * ms)
			check(t, rule, "k", 1, true)
			rule.Abandon("k", 1)
			time.Sleep(refreshDelay - 1)
			check(t, rule, "k", 1, true)
			rule.Abandon("k", 1) // it does not postpone the check
			time.Sleep(time.Nanosecond)
		}
	})
}

// TestDrop: an admission at the same cost ends a refusal, and so does a refusal with units remaining, which is not
// cached.
func TestDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := New().Rule(bound)
		another := refusalFor(time.Hour)
		another.Remaining = 2
		for _, answer := range []core.Decision{{Allowed: true}, another} {
			rule.Record("k", 3, time.Now(), refusalFor(time.Hour))
			check(t, rule, "k", 3, true)
			rule.Record("k", 3, time.Now(), answer)
			check(t, rule, "k", 3, false)
		}
	})
}

// TestCounter: a counter's refusal is cached until the earlier end of its fixed window and the refusal, and only for
// a cost of 1, since the answer to a larger one changes before that cost passes.
func TestCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := New().Rule(bound)
		for _, c := range []struct{ reset, retry time.Duration }{{40 * ms, 70 * ms}, {70 * ms, 40 * ms}} {
			d := refusalFor(c.reset)
			d.Limit.Algorithm, d.RetryAfter = core.SlidingCounter, c.retry
			rule.Record("k", 1, time.Now(), d)
			rule.Record("k", 2, time.Now(), d)
			check(t, rule, "k", 2, false)
			time.Sleep(40*ms - 1)
			if got := check(t, rule, "k", 1, true); got.ResetAfter <= 0 || got.RetryAfter <= 0 {
				t.Errorf("%+v", got)
			}
			time.Sleep(time.Nanosecond)
			check(t, rule, "k", 1, false)
		}
	})
}

// TestBounded: a flood of refused clients does not grow the cache, and the newest refusal is cached.
func TestBounded(t *testing.T) {
	all := New()
	rule := all.Rule(bound)
	for i := range 2 * shards * shardSize {
		client := fmt.Sprint(i)
		rule.Record(client, 1, time.Now(), refusalFor(time.Hour))
		if _, ok := rule.found(client, 1); !ok {
			t.Fatalf("%s is not cached", client)
		}
	}
	n := 0
	for i := range all.shards {
		n += len(all.shards[i].byKey)
	}
	if n > shards*shardSize {
		t.Errorf("%d are cached, want at most %d", n, shards*shardSize)
	}
	s, _ := rule.shard("k")
	for range 2 { // the second time it takes the place of itself
		rule.Record("k", 1, time.Now(), refusalFor(time.Hour))
		if len(s.byKey) != shardSize {
			t.Errorf("a full shard has %d, want %d", len(s.byKey), shardSize)
		}
	}
}

// TestSameKey: a refusal is not taken for that of another rule and cost that have the same key in the map.
func TestSameKey(t *testing.T) {
	all := New()
	one, two := all.Rule(bound), all.Rule(bound)
	one.Record("k", 1<<32+2, time.Now(), refusalFor(time.Hour))
	check(t, one, "k", 1<<32+2, true)
	check(t, two, "k", 2, false)
	two.Record("k", 2, time.Now(), core.Decision{Allowed: true})
	check(t, one, "k", 1<<32+2, true)
}

// TestNoLock: while no refusal is cached, requests that are admitted take no lock that others hold.
func TestNoLock(t *testing.T) {
	defer time.AfterFunc(10*time.Second, func() { panic("a request waits for a lock") }).Stop()
	all := New()
	rule := all.Rule(bound)
	rule.Record("k", 1, time.Now(), refusalFor(time.Hour))
	rule.Record("k", 1, time.Now(), core.Decision{Allowed: true})
	for i := range all.shards {
		all.shards[i].mu.Lock()
	}
	check(t, rule, "k", 1, false)
	rule.Record("k", 1, time.Now(), core.Decision{Allowed: true})
}
