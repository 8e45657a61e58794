package redisstore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
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
	batch := make([]*call, 1+rng.IntN(8))
	for i := range batch {
		batch[i] = &call{Request: asking(rules[0], fmt.Sprint(i), 1, true)}
		switch rng.IntN(8) {
		case 0:
			batch[i].Request.Cost = rng.Int64N(5)
		case 1:
			batch[i].Request.Peek = true
		case 2:
			batch[i].Request.ledger = rules[1]
		}
	}
	args := rules[0].batches.command(batch)
	now, reply := timed(t, rdb.Do(ctx, append([]any{"eval", rules[0].rule.Script.Source}, args[2:]...)...))
	for i, c := range batch {
		var d core.Decision
		var err error
		r := c.Request
		d, reply, err = r.ledger.rule.Read(reply, now, &r.Ask, nil)
		want := r.ledger.rule.Limits[0].Requests - r.Cost
		counted := d.Allowed && r.Cost > 0 && !r.Peek
		if err != nil || d.Allowed != (want >= 0) || d.Allowed && d.Remaining != want ||
			counted && d.At.UnixMicro() != now+r.ledger.rule.Ahead {
			t.Errorf("%v, request %d, cost %d, peek %v: %+v, %v", r.ledger.rule.Limits, i, r.Cost, r.Peek, d, err)
		}
	}
	last := batch[len(batch)-1].Request
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

// TestPlan: requests with the same limits of their own are decided by one ledger, and others by another, also if the
// caller has changed the limits.
func TestPlan(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { rdb.Close() })
	rule, plan := bind(t, rdb, core.PerMinute(3)), []core.Limit{core.PerMinute(5)}
	first := rule.with(plan, 0)
	if again := rule.with(slices.Clone(plan), 0); again != first {
		t.Error("the same limits have another ledger")
	}
	plan[0].Requests = 7
	other := rule.with(plan, 0)
	if first.rule.Limits[0].Requests != 5 || other.rule.Limits[0].Requests != 7 || other.rule.Args[0] != "7" {
		t.Errorf("%v, then %v by the arguments %v", first.rule.Limits, other.rule.Limits, other.rule.Args)
	}
}
