//go:build !race && !short

package script_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
	"github.com/sashlimit/sash/internal/redistest"
)

// timed is a script's reply: the time that it begins with, and the rest.
func timed(t *testing.T, cmd *redis.Cmd) (now int64, rest string) {
	t.Helper()
	reply, err := cmd.Text()
	if err == nil {
		now, rest, err = script.ReadTime(reply)
	}
	if err != nil {
		t.Fatal(err)
	}
	return now, rest
}

// TestBatchCommand: whatever is decided together, the script is told of each
// request what it costs, under which limits, and how far ahead of time.
func TestBatchCommand(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		rng := rand.New(rand.NewPCG(1, 14))
		rule := func(a core.Algorithm, requests, hours int64) *ledger {
			return bind(t, rdb, core.Per(requests, time.Duration(hours)*time.Hour).Using(a), core.PerDay(100))
		}
		log, counter := core.SlidingLog, core.SlidingCounter
		for _, rules := range [][]*ledger{
			{rule(log, 3, 1), rule(log, 5, 1)}, {rule(counter, 3, 1), rule(counter, 5, 1)}, // windows stand in the script
			{rule(log, 3, 2), rule(log, 5, 3)}, {rule(counter, 3, 2), rule(counter, 5, 3)},
			{ahead(rule(log, 3, 1), time.Minute), ahead(rule(log, 5, 1), time.Second)},
			{ahead(rule(log, 3, 2), time.Minute), ahead(rule(log, 5, 3), time.Second)},
		} {
			if rules[0].rule.Script.SHA != rules[1].rule.Script.SHA {
				t.Error("these are not decided together")
			}
			for range 50 {
				batchCommand(t, rdb, rng, rules)
			}
		}
	})
}

// batchCommand has the script decide a batch of random requests by two rules.
func batchCommand(t *testing.T, rdb *redis.Client, rng *rand.Rand, rules []*ledger) {
	batch := make([]request, 1+rng.IntN(8))
	for i := range batch {
		batch[i] = asking(rules[0], fmt.Sprint(i), 1, true)
		switch rng.IntN(8) {
		case 0:
			batch[i].Cost = rng.Int64N(5)
		case 1:
			batch[i].Peek = true
		case 2:
			batch[i].ledger = rules[1]
		}
	}
	args := command(batch)
	now, reply := timed(t, rdb.Do(ctx, append([]any{"eval", rules[0].rule.Script.Source}, args[2:]...)...))
	for i := range batch {
		var d core.Decision
		var err error
		r := &batch[i]
		d, reply, err = r.ledger.rule.Read(reply, now, &r.Ask, nil)
		want := r.ledger.rule.Limits[0].Requests - r.Cost
		counted := d.Allowed && r.Cost > 0 && !r.Peek
		if err != nil || d.Allowed != (want >= 0) || d.Allowed && d.Remaining != want ||
			counted && d.At.UnixMicro() != now+r.ledger.rule.Ahead {
			t.Errorf("%v, request %d, cost %d, peek %v: %+v, %v", r.ledger.rule.Limits, i, r.Cost, r.Peek, d, err)
		}
	}
	last := batch[len(batch)-1]
	if last.Cost > 0 && !last.Peek && last.Cost <= last.ledger.rule.Limits[0].Requests {
		key := rules[0].rule.Keys(nil, last.Key)[1].(string) // of a log
		if entry := rdb.LIndex(ctx, key, -1).Val(); !strings.HasPrefix(entry, big48(now+last.ledger.rule.Ahead)) {
			t.Errorf("the last request is %x, want one at %x", entry, big48(now+last.ledger.rule.Ahead))
		}
	}
	if reply != "" {
		t.Errorf("%q is left of the reply", reply)
	}
	rdb.FlushAll(ctx)
}

// TestBatchFull: on a full server each request of a batch is answered for itself: a newcomer that it is full, and a
// client at its limit with a refusal.
func TestBatchFull(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	for _, a := range core.Algorithms() {
		c := bind(t, rdb, core.PerDay(1).Using(a))
		var batch []request
		for i := range 16 {
			known := fmt.Sprint("known ", i)
			if d, err := c.Take(ctx, core.Ask{Key: known, Cost: 1}); err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
			batch = append(batch, asking(c, fmt.Sprint("new ", i), 1, true), asking(c, known, 1, true))
		}
		rdb.ConfigSet(ctx, "maxmemory", "1000")
		now, rest := timed(t, rdb.Do(ctx, append([]any{"eval", c.rule.Script.Source}, command(batch)[2:]...)...))
		rdb.ConfigSet(ctx, "maxmemory", "0")
		for i := range batch {
			var d core.Decision
			var err error
			d, rest, err = c.rule.Read(rest, now, &batch[i].Ask, nil)
			if newcomer := i%2 == 0; newcomer != mentionsError(err, "OOM") || !newcomer && (err != nil || d.Allowed) {
				t.Errorf("%v, %s: %+v, %v", a, batch[i].Key, d, err)
			}
		}
	}
}
