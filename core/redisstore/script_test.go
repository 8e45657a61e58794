package redisstore

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/model"
	"github.com/sashlimit/sash/internal/redistest"
)

var ctx = context.Background()

// longer is how much longer than by the script a key of a clocked script lives: Redis
// expires keys by its own clock, which goes on while a busy machine runs a test.
const longer = time.Hour

// clocked is a script with two changes: the time comes from the first two
// arguments, see at, instead of the server; and keys live longer.
func clocked(t *testing.T, source string) script {
	t.Helper()
	if s, ok := clockedScripts.Load(source); ok {
		return s.(script)
	}
	const time = "call('TIME')"
	if strings.Count(source, time) != 1 {
		t.Fatal("the script must read the time once")
	}
	changed := strings.Replace(source, time, "{table.remove(ARGV, 1), table.remove(ARGV, 1)}", 1)
	const ttl = " / 1000 + 1000"
	if !strings.Contains(changed, ttl) {
		t.Fatal("the script must give keys a TTL")
	}
	s := newScript(strings.ReplaceAll(changed, ttl, fmt.Sprint(ttl, " + ", longer.Milliseconds())))
	clockedScripts.Store(source, s)
	return s
}

var clockedScripts sync.Map // by source: tests ask thousands of times

// at is c at a time of a clocked script.
func (c *ledger) at(t *testing.T, now int64) *ledger {
	t.Helper()
	seconds, micros := strconv.FormatInt(now/1_000_000, 10), strconv.FormatInt(now%1_000_000, 10)
	return c.calling(clocked(t, c.script.source), append([]any{seconds, micros}, c.args...))
}

// takeAt decides when the server's clock shows now.
func (c *ledger) takeAt(t *testing.T, key string, cost int64, charge bool, now int64) core.Decision {
	t.Helper()
	d, err := c.at(t, now).askAlone(ctx, time.Time{}, key, cost, charge)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func bind(t *testing.T, rdb redis.UniversalClient, limits ...core.Limit) *ledger {
	t.Helper()
	s := New(rdb) // one, for tests bind hundreds of times
	l, err := core.New(core.Config{Name: "test", Store: s, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return s.newLedger(core.Rule{Name: "test", Limits: l.Limits()})
}

// servers runs a test on a real server, on miniredis, and with Lua 5.4, at the same time.
func servers(t *testing.T, test func(t *testing.T, rdb *redis.Client)) {
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Start(t).Client(t))
	})
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
		t.Cleanup(func() { rdb.Close() })
		test(t, rdb)
	})
	t.Run("Lua 5.4", func(t *testing.T) {
		t.Parallel()
		test(t, startLua54(t))
	})
}

var long = flag.Bool("long", false, "go through three times as many random histories")

// histories returns how many of n random histories a test goes through.
func histories(n uint64) uint64 {
	if *long {
		return n
	}
	return n / 3
}

func randomLimits(rng *rand.Rand) []core.Limit {
	limits := make([]core.Limit, 1+rng.IntN(3))
	for i := range limits {
		w := time.Duration(1000+rng.Int64N(100_000)) * time.Microsecond
		switch rng.IntN(6) {
		case 0:
			w = core.MinWindow
		case 1:
			w = core.MaxWindow - time.Duration(rng.IntN(1000))*time.Microsecond
		}
		limits[i] = core.Per(1+rng.Int64N(12), w).Named(fmt.Sprint(i))
		if rng.IntN(2) == 0 {
			limits[i] = limits[i].Using(core.SlidingCounter)
			if rng.IntN(5) == 0 {
				limits[i].Requests = core.MaxCounterRequests - rng.Int64N(10)
			}
		}
	}
	return limits
}

// TestScriptAgainstModel runs random histories of mixed limits through the
// script and the model, on a clock that jumps and steps back, with limits
// raised and lowered on the way, and compares every answer. A request that is
// refused, free or a peek must leave Redis as it was, but for what is too far ahead
// of the clock; every key must have a TTL that outlives its state by little.
func TestScriptAgainstModel(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		rewound := 0
		for seed := range histories(120) {
			rng := rand.New(rand.NewPCG(seed, 11))
			limits := randomLimits(rng)
			window := limits[rng.IntN(len(limits))].Window.Microseconds()
			client, key := model.Client{}, fmt.Sprint("client ", seed)
			now := int64(1_790_000_000_000_000) + rng.Int64N(1e12)
			highest, charged := now, now
			c, began := bind(t, rdb, limits...), time.Now()
			for step := range 60 {
				switch rng.IntN(15) {
				case 0:
					// not beyond half the range of a stamp, some 4 years
					now = max(now-rng.Int64N(2*window), highest-2*window)
				case 4:
					now -= rng.Int64N(window / 5) // about as far as is let pass
				case 1:
					now += rng.Int64N(3 * window)
				case 2:
					l := &limits[rng.IntN(len(limits))]
					l.Requests = 1 + rng.Int64N(12)
					c = bind(t, rdb, limits...)
				case 3:
				default:
					now += rng.Int64N(window / 4)
				}
				if now > charged+2*core.MaxWindow.Microseconds() {
					// As the TTL would have.
					rdb.FlushAll(ctx)
					client = model.Client{}
				}
				highest = max(highest, now)
				cost := rng.Int64N(4)
				if rng.IntN(20) == 0 {
					cost = 1 << 61
				}
				charge := rng.IntN(4) > 0
				before := dump(t, rdb, c, key)
				ahead := client.Ahead(limits, time.UnixMicro(now))
				got := c.takeAt(t, key, cost, charge, now)
				if want := client.Decide(limits, time.UnixMicro(now), cost, charge); got != want {
					t.Fatalf("seed %d step %d: %v, cost %d, charge %v:\n got %+v\nwant %+v\nbefore %s",
						seed, step, limits, cost, charge, got, want, before)
				}
				if !charge || cost == 0 || !got.Allowed && !ahead {
					if after := dump(t, rdb, c, key); after != before {
						t.Fatalf("seed %d step %d: cost %d, charge %v, allowed %v changed Redis:\n%q\n%q",
							seed, step, cost, charge, got.Allowed, before, after)
					}
					continue
				}
				if ahead {
					// What was ahead has been written anew, with a TTL by this clock.
					rewound++
					highest = now
				}
				charged = highest
				for i, k := range c.keys(nil, key) {
					ttl := rdb.PTTL(ctx, k.(string)).Val() - longer
					w := limits[i].Window
					least, most := w, w+w/2+2*time.Second
					if limits[i].Algorithm == core.SlidingCounter {
						most = 2*w + 2*time.Second
					}
					ahead := time.Duration(highest-now) * time.Microsecond
					if ttl < least-time.Since(began) || ttl > most+ahead {
						t.Fatalf("seed %d step %d: %v has a TTL of %v, want %v to %v",
							seed, step, limits[i], ttl, least, most+ahead)
					}
				}
			}
			rdb.FlushAll(ctx)
		}
		if rewound < 100 {
			t.Errorf("only %d requests found something too far ahead", rewound)
		}
	})
}

// dump is all that Redis holds for a client, asked for in one round trip: half of what
// it asks of each key is an error, for a key of another type.
func dump(t *testing.T, rdb *redis.Client, c *ledger, key string) string {
	t.Helper()
	keys := c.keys(nil, key)
	var b strings.Builder
	answers, _ := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, k := range keys {
			p.Type(ctx, k.(string))
			p.Get(ctx, k.(string))
			p.LRange(ctx, k.(string), 0, -1)
		}
		return nil
	})
	for i := range keys {
		of := answers[3*i : 3*i+3]
		switch kind := of[0].(*redis.StatusCmd).Val(); kind {
		case "list":
			fmt.Fprintf(&b, "%q ", of[2].(*redis.StringSliceCmd).Val())
		case "string":
			fmt.Fprintf(&b, "%q ", of[1].(*redis.StringCmd).Val())
		case "":
			t.Fatal(of[0].Err())
		default:
			fmt.Fprintf(&b, "%s ", kind)
		}
	}
	return b.String()
}

// TestScriptLargeLog, with a window that outlasts the test by the server's own
// clock, expires most of a large log at once, and asks it for
// costs that make it look deep.
func TestScriptLargeLog(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	limits := []core.Limit{core.Per(100_000, time.Hour).Named("log")}
	c := bind(t, rdb, limits...)
	var client model.Client
	rng := rand.New(rand.NewPCG(1, 13))
	now := int64(1_790_000_000_000_000)
	check := func(cost int64, charge bool) {
		t.Helper()
		got := c.takeAt(t, "k", cost, charge, now)
		if want := client.Decide(limits, time.UnixMicro(now), cost, charge); got != want {
			t.Fatalf("at %d, cost %d:\n got %+v\nwant %+v", now, cost, got, want)
		}
	}
	for range 20_000 {
		now += rng.Int64N(180_000)
		check(1+rng.Int64N(3), true)
	}
	for range 200 {
		check(100_000-rng.Int64N(50_000), false)
	}
	now += 3_600_000_000 - 360_000_000 // of half an hour of history six minutes are left
	for range 100 {
		check(100_000-rng.Int64N(20_000), false)
	}
	check(5, true)
	if n := rdb.LLen(ctx, c.keys(nil, "k")[0].(string)).Val(); n > 10_000 {
		t.Errorf("%d entries are left", n)
	}
	for range 100 {
		now += rng.Int64N(7_200_000)
		check(rng.Int64N(3), true)
	}
	now += 36_000_000_000
	check(1, true)
	if n := rdb.LLen(ctx, c.keys(nil, "k")[0].(string)).Val(); n != 1 {
		t.Errorf("%d entries after all have expired, want 1", n)
	}
}

// TestScriptTotalsWrap: the running total of a long life passes 2^20.
func TestScriptTotalsWrap(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		limits := []core.Limit{core.Per(1_000_000, time.Hour).Named("log")}
		c := bind(t, rdb, limits...)
		var client model.Client
		now := int64(1_790_000_000_000_000)
		for i := range int64(120) {
			now += 900_000_000
			for _, cost := range []int64{190_001 + i, 1_000_000} {
				got := c.takeAt(t, "k", cost, true, now)
				if want := client.Decide(limits, time.UnixMicro(now), cost, true); got != want {
					t.Fatalf("step %d:\n got %+v\nwant %+v", i, got, want)
				}
			}
		}
	})
}

// TestScriptForeignValues: whatever stands at a key of ours is reported once,
// replaced, and never admits without limit. A peek reports and leaves it.
func TestScriptForeignValues(t *testing.T) {
	values := map[string]func(rdb *redis.Client, key string){
		"a text":            func(rdb *redis.Client, key string) { rdb.Set(ctx, key, "hello", 0) },
		"an empty text":     func(rdb *redis.Client, key string) { rdb.Set(ctx, key, "", 0) },
		"a number":          func(rdb *redis.Client, key string) { rdb.Set(ctx, key, 12, 0) },
		"39 letters":        func(rdb *redis.Client, key string) { rdb.Set(ctx, key, strings.Repeat("x", 39), 0) },
		"39 of everything":  func(rdb *redis.Client, key string) { rdb.Set(ctx, key, strings.Repeat("1 e-", 9)+"123", 0) },
		"a hash":            func(rdb *redis.Client, key string) { rdb.HSet(ctx, key, "a", "b") },
		"a set":             func(rdb *redis.Client, key string) { rdb.SAdd(ctx, key, "a") },
		"a sorted set":      func(rdb *redis.Client, key string) { rdb.ZAdd(ctx, key, redis.Z{Score: 1, Member: "a"}) },
		"a list of numbers": func(rdb *redis.Client, key string) { rdb.LPush(ctx, key, 1, 2, 3) },
		"a list of texts":   func(rdb *redis.Client, key string) { rdb.LPush(ctx, key, "a", "", strings.Repeat("b", 13)) },
		"12 letters":        func(rdb *redis.Client, key string) { rdb.Set(ctx, key, strings.Repeat("x", 12), 0) },
		"18 letters":        func(rdb *redis.Client, key string) { rdb.Set(ctx, key, strings.Repeat("x", 18), 0) },
		"a counter that began at no time for that": func(rdb *redis.Client, key string) {
			rdb.Set(ctx, key, counterValue(time.Now().Truncate(time.Minute).Add(time.Microsecond), 1, 1), 0)
		},
		"a large counter that began at no time for that": func(rdb *redis.Client, key string) {
			rdb.Set(ctx, key, counterValue(time.Now().Truncate(time.Minute).Add(time.Microsecond), 1<<23, 1), 0)
		},
		"a short counter with the mark of a long one": func(rdb *redis.Client, key string) {
			rdb.Set(ctx, key, "\xfe"+counterValue(time.Now().Truncate(time.Minute), 0, 1)[1:], 0)
		},
		"a short counter with the mark of none": func(rdb *redis.Client, key string) {
			rdb.Set(ctx, key, "\xff"+counterValue(time.Now().Truncate(time.Minute), 0, 1)[1:], 0)
		},
		"a counter of more than any limit": func(rdb *redis.Client, key string) {
			rdb.Set(ctx, key, counterValue(time.Now().Truncate(time.Minute), 0, core.MaxCounterRequests+1), 0)
		},
		"a counter after more than any limit": func(rdb *redis.Client, key string) {
			rdb.Set(ctx, key, counterValue(time.Now().Truncate(time.Minute), core.MaxCounterRequests+1, 0), 0)
		},
		"a list of which more was dropped than ever is": func(rdb *redis.Client, key string) {
			for range 12 {
				rdb.RPush(ctx, key, logEntry(time.Now(), 9, 1))
			}
		},
		"a list of which more was dropped than is there": func(rdb *redis.Client, key string) {
			rdb.RPush(ctx, key, logEntry(time.Now(), 8, 1))
		},
	}
	servers(t, func(t *testing.T, rdb *redis.Client) {
		for name, put := range values {
			for _, a := range []core.Algorithm{core.SlidingLog, core.SlidingCounter} {
				rdb.FlushAll(ctx)
				c := bind(t, rdb, core.PerMinute(2).Using(a), core.PerHour(2))
				key := c.keys(nil, "k")[0].(string)
				put(rdb, key)
				before := dump(t, rdb, c, "k")
				if _, err := c.Take(ctx, core.Ask{Key: "k", Cost: 1, Peek: true}); !errors.Is(err, ErrForeign) {
					t.Errorf("%s at a %v: a peek says %v", name, a, err)
				}
				if after := dump(t, rdb, c, "k"); after != before {
					t.Errorf("%s at a %v: a peek changed it to %s", name, a, after)
				}
				if _, err := c.Take(ctx, core.Ask{Key: "k", Cost: 1}); !errors.Is(err, ErrForeign) {
					t.Errorf("%s at a %v: %v", name, a, err)
				}
				for i, want := range []bool{true, true, false} {
					if d, err := c.Take(ctx, core.Ask{Key: "k", Cost: 1}); err != nil || d.Allowed != want {
						t.Errorf("%s at a %v: then request %d: %v, %v", name, a, i, d.Allowed, err)
					}
				}
			}
		}
	})
}

// TestScriptDropped: in steady state a log holds few entries that count no more,
// and says how many; these stay dropped when the clock steps back, and are gone
// when all have expired.
func TestScriptDropped(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		const length = 50
		limits := []core.Limit{core.Per(1000, length*time.Second).Named("log")}
		c := bind(t, rdb, limits...)
		key := c.keys(nil, "k")[0].(string)
		var client model.Client
		now := int64(1_790_000_000_000_000)
		check := func(cost int64, charge bool) {
			t.Helper()
			got := c.takeAt(t, "k", cost, charge, now)
			if want := client.Decide(limits, time.UnixMicro(now), cost, charge); got != want {
				t.Fatalf("at %d:\n got %+v\nwant %+v", now, got, want)
			}
		}
		longest, shortest := int64(0), int64(length+100)
		for i := range 4 * length {
			now += 1_000_000
			check(1, true)
			if i < length {
				continue
			}
			n := rdb.LLen(ctx, key).Val()
			longest, shortest = max(longest, n), min(shortest, n)
			if i%7 == 0 { // what is dropped now counts for earlier times no more
				now -= 5_000_000
				check(1, false)
				check(1000, false)
				now += 5_000_000
			}
		}
		if longest != length+8 || shortest != length {
			t.Errorf("a log of %d entries is a list of %d to %d, want up to 8 more", length, shortest, longest)
		}
		now += 2 * length * 1_000_000
		check(1, true)
		if n := rdb.LLen(ctx, key).Val(); n != 1 {
			t.Errorf("%d entries after all have expired, want 1", n)
		}
	})
}

// TestScriptSameLimits: of requests that are decided together, those that follow
// another under the same limits are sent without these, and costs of 1 at the end
// are not sent.
func TestScriptSameLimits(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		for _, a := range []core.Algorithm{core.SlidingLog, core.SlidingCounter} {
			for _, longer := range []time.Duration{0, time.Second} { // windows in the script, and in its arguments
				few := bind(t, rdb, core.Per(10, time.Hour).Using(a), core.Per(100, 24*time.Hour+longer))
				many := bind(t, rdb, core.Per(20, time.Hour+longer).Using(a), core.Per(50, 24*time.Hour))
				if usual(few.rule.Limits) != (longer == 0) {
					t.Fatal("this tests one of them twice")
				}
				var keys []string
				args := append([]any(nil), few.args...)
				requests := []struct {
					c         *ledger
					key, cost string
					remaining int64
					allowed   bool
				}{
					{few, "a", "2", 8, true},
					{few, "a", "1", 7, true},
					{few, "b", "1", 9, true},
					{few, "a", "-3", 4, true},
					{few, "a", "0", 7, true},
					{few, "a", "1099511627777", 7, false},
					{few, "a", "7", 0, true},
					{few, "a", "1", 0, false},
					{many, "c", "1", 19, true},
					{many, "c", "19", 0, true},
					{few, "b", "1", 8, true},
					{few, "b", "", 7, true},
					{few, "a", "", 0, false},
				}
				last := few
				for _, r := range requests {
					for _, k := range r.c.keys(nil, r.key) {
						keys = append(keys, k.(string))
					}
					if r.c != last {
						args = append(append(args, "+"), r.c.args...)
						last = r.c
					}
					if r.cost != "" {
						args = append(args, r.cost)
					}
				}
				now, reply := timed(t, rdb.Eval(ctx, few.script.source, keys, args...))
				for i, r := range requests {
					cost := int64(1)
					if r.cost != "" {
						var err error
						if cost, err = strconv.ParseInt(r.cost, 10, 64); err != nil {
							t.Fatal(err)
						}
					}
					var d core.Decision
					var err error
					d, reply, err = r.c.read(reply, now, &core.Ask{Cost: max(cost, -cost), Peek: cost <= 0})
					if err != nil || d.Allowed != r.allowed || d.Remaining != r.remaining {
						t.Errorf("%v, %v, request %d: %+v, %v, want %+v", a, longer, i, d, err, r)
					}
				}
				if reply != "" {
					t.Errorf("%v, %v: %q is left of the reply", a, longer, reply)
				}
				rdb.FlushAll(ctx)
			}
		}
	})
}

// timed is a script's reply: the time that it begins with, and the rest.
func timed(t *testing.T, cmd *redis.Cmd) (now int64, rest string) {
	t.Helper()
	reply, err := cmd.Text()
	if err == nil {
		now, rest, err = readTime(reply)
	}
	if err != nil {
		t.Fatal(err)
	}
	return now, rest
}

// TestBatchCommand: whatever is decided together, the script is told of each
// request what it costs, under which limits, and how far ahead of time.
func TestBatchCommand(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { rdb.Close() })
	rng := rand.New(rand.NewPCG(1, 14))
	usual := []*ledger{bind(t, rdb, core.Per(3, time.Hour)), bind(t, rdb, core.Per(5, time.Hour))}
	unusual := []*ledger{bind(t, rdb, core.Per(3, 2*time.Hour)), bind(t, rdb, core.Per(5, 3*time.Hour))}
	for _, rules := range [][]*ledger{
		usual, unusual,
		{usual[0].aheadBy(time.Minute), usual[1].aheadBy(time.Second)},
		{unusual[0].aheadBy(time.Minute), unusual[1].aheadBy(time.Second)},
	} {
		if rules[0].script.sha != rules[1].script.sha {
			t.Error("these are not decided together")
		}
		for range 100 {
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
			args := rules[0].script.batches.command(batch)
			now, reply := timed(t, rdb.Do(ctx, append([]any{"eval", rules[0].script.source}, args[2:]...)...))
			for i, c := range batch {
				var d core.Decision
				var err error
				r := c.Request
				d, reply, err = r.ledger.read(reply, now, &r.Ask)
				want := r.ledger.rule.Limits[0].Requests - r.Cost
				counted := d.Allowed && r.Cost > 0 && !r.Peek
				if err != nil || d.Allowed != (want >= 0) || d.Allowed && d.Remaining != want ||
					counted && d.At.UnixMicro() != now+r.ledger.ahead {
					t.Errorf("%v, request %d, cost %d, peek %v: %+v, %v", r.ledger.rule.Limits, i, r.Cost, r.Peek, d, err)
				}
			}
			if reply != "" {
				t.Errorf("%q is left of the reply", reply)
			}
			rdb.FlushAll(ctx)
		}
	}
}

// TestScriptLargeCounter: counts that outgrow the short form of a counter, and
// windows after them.
func TestScriptLargeCounter(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		forms := map[int]int{}
		for seed := range uint64(60) {
			rng := rand.New(rand.NewPCG(seed, 15))
			window := time.Duration(1000+rng.Int64N(1e9)) * time.Microsecond
			if seed%2 == 0 {
				window = time.Minute
			}
			few := core.Per(1+rng.Int64N(1<<(20+rng.IntN(21))), window)
			limits := []core.Limit{few.Using(core.SlidingCounter).Named("a")}
			if seed%3 == 0 {
				many := core.Per(1+rng.Int64N(core.MaxCounterRequests), 3*window)
				limits = append(limits, many.Using(core.SlidingCounter).Named("b"))
			}
			c, client, key := bind(t, rdb, limits...), model.Client{}, fmt.Sprint("client ", seed)
			now := int64(1_790_000_000_000_000) + rng.Int64N(1e12)
			for step := range 40 {
				switch rng.IntN(12) {
				case 0:
					now += rng.Int64N(3 * window.Microseconds())
				case 1:
					now -= rng.Int64N(window.Microseconds())
				default:
					now += rng.Int64N(window.Microseconds() / 8)
				}
				cost := rng.Int64N(2 << rng.IntN(38))
				if rng.IntN(2) == 0 {
					cost = min(cost, 1)
				}
				before := dump(t, rdb, c, key)
				got := c.takeAt(t, key, cost, true, now)
				if want := client.Decide(limits, time.UnixMicro(now), cost, true); got != want {
					t.Fatalf("seed %d step %d: %v, cost %d:\n got %+v\nwant %+v\nbefore %s",
						seed, step, limits, cost, got, want, before)
				}
				for i, k := range c.keys(nil, key) {
					value := rdb.Get(ctx, k.(string)).Val()
					if value == "" {
						continue
					}
					forms[len(value)]++
					var previous, current int64
					if len(value) == 12 {
						previous, current = uint24(value), uint24(value[3:])
					} else {
						previous, current = uint48(value), uint48(value[6:])
					}
					if want := counterValue(time.UnixMicro(nearest(value[len(value)-6:], now)), previous, current); value != want {
						t.Fatalf("seed %d step %d: %q for %d and %d, want %q", seed, step, value, previous, current, want)
					}
					if ttl := rdb.PTTL(ctx, k.(string)).Val(); ttl <= 0 {
						t.Fatalf("seed %d step %d: %v has a TTL of %v", seed, step, limits[i], ttl)
					}
				}
			}
			rdb.FlushAll(ctx)
		}
		if len(forms) != 2 || forms[12] < 100 || forms[18] < 100 {
			t.Errorf("sizes of counters: %v", forms)
		}
	})
}

// TestScriptLogsInStep: logs of a rule have the same newest entry, also after
// all of one has expired.
func TestScriptLogsInStep(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		limits := []core.Limit{core.PerHour(1000), core.PerMinute(100), core.PerMinute(200).Named("other")}
		c := bind(t, rdb, limits...)
		keys := c.keys(nil, "k")
		var client model.Client
		now := int64(1_790_000_000_000_000)
		for step, pause := range []int64{0, 1, 0, 120, 1, 5, 300, 0} {
			now += pause * 1_000_000
			cost := int64(1 + step%3)
			got := c.takeAt(t, "k", cost, true, now)
			if want := client.Decide(limits, time.UnixMicro(now), cost, true); got != want {
				t.Fatalf("step %d:\n got %+v\nwant %+v", step, got, want)
			}
			newest := rdb.LIndex(ctx, keys[0].(string), -1).Val()
			for _, k := range keys[1:] {
				if other := rdb.LIndex(ctx, k.(string), -1).Val(); other != newest {
					t.Errorf("step %d: %q and %q", step, newest, other)
				}
			}
		}
	})
}

// TestScriptManyLimits: the variables of as many limits as there may be fit
// into the script, whatever their algorithms.
func TestScriptManyLimits(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		for _, logs := range []int{0, 1, 8, 15, 16} {
			limits := make([]core.Limit, maxLimits)
			for i := range limits {
				limits[i] = core.PerHour(int64(3 + i)).Named(fmt.Sprint(logs, "-", i))
				if i*7%maxLimits >= logs {
					limits[i] = limits[i].Using(core.SlidingCounter)
				}
			}
			c := bind(t, rdb, limits...)
			var client model.Client
			now := int64(1_790_000_000_000_000)
			for step := range 8 {
				now += 1_000_000_000
				cost := int64(1 + step%2)
				got := c.takeAt(t, "k", cost, true, now)
				if want := client.Decide(limits, time.UnixMicro(now), cost, true); got != want {
					t.Fatalf("%d logs, step %d:\n got %+v\nwant %+v", logs, step, got, want)
				}
			}
		}
	})
}

// TestScriptsFew: however clients choose the windows of a rule, they lead to few scripts.
func TestScriptsFew(t *testing.T) {
	windows := []time.Duration{
		time.Second, time.Minute, time.Hour, 24 * time.Hour, time.Millisecond, 90 * time.Second, core.MaxWindow,
	}
	for n, want := range map[int]int{1: 5, 2: 17, 3: 65, 4: 257, 5: 1} {
		limits, sources := make([]core.Limit, n), map[string]string{} // the script of each shape
		var choose func(i int)
		choose = func(i int) {
			if i < n {
				for _, w := range windows {
					limits[i] = core.Per(int64(len(sources)+1), w).Using(core.Algorithm(i % 2))
					choose(i + 1)
				}
				return
			}
			shape := scriptShape(false, limits)
			if _, known := sources[shape]; !known {
				sources[shape] = decideSource(false, limits)
			}
		}
		choose(0)
		different := map[string]bool{}
		for _, source := range sources {
			different[source] = true
		}
		if len(sources) != want || len(different) != want {
			t.Errorf("%d limits lead to %d shapes and %d scripts, want %d", n, len(sources), len(different), want)
		}
	}
}

// TestScriptsBounded: a store keeps few scripts, however many kinds of rules are bound, and a rule whose
// script is no longer kept goes on.
func TestScriptsBounded(t *testing.T) {
	s := New(redistest.Start(t).Client(t))
	rng := rand.New(rand.NewPCG(1, 16))
	take := func(c core.Counts, key string) {
		t.Helper()
		if d, err := c.Take(ctx, core.Ask{Key: key, Cost: 1}); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	var first core.Counts
	for i := range 3 * maxScripts {
		limits := make([]core.Limit, 1+rng.IntN(maxLimits))
		for i := range limits {
			limits[i] = core.PerHour(10).Using(core.Algorithm(rng.IntN(2))).Named(fmt.Sprint(i))
		}
		c, err := s.Bind(core.Rule{Name: "test", Rule: fmt.Sprint(i), Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = c
		}
		if i%50 == 0 {
			take(c, "k")
		}
		if len(s.scripts.byShape) > maxScripts {
			t.Fatalf("%d scripts after %d rules", len(s.scripts.byShape), i+1)
		}
	}
	if len(s.scripts.byShape) != maxScripts {
		t.Errorf("%d scripts, want %d", len(s.scripts.byShape), maxScripts)
	}
	clear(s.scripts.byShape)
	take(first, "k")
}

// TestScriptForeignEntryInside: an entry deep in a list is found when it is met.
func TestScriptForeignEntryInside(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		c := bind(t, rdb, core.Per(10, time.Hour))
		key := c.keys(nil, "k")[0].(string)
		for range 8 {
			c.takeAt(t, "k", 1, true, 1_790_000_000_000_000)
		}
		rdb.LSet(ctx, key, 3, "garbage")
		rdb.LSet(ctx, key, 4, "garbage")
		at := c.at(t, 1_790_000_000_000_005)
		for cost := range int64(10) {
			_, err := at.askAlone(ctx, time.Time{}, "k", cost+1, true)
			if errors.Is(err, ErrForeign) {
				if n := rdb.Exists(ctx, key).Val(); n != 0 {
					t.Fatal("reported and not replaced")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		t.Fatal("never reported")
	})
}

// TestScriptClockWasAhead: what was counted while the server's clock was ahead, by more
// than a lease may be, counts for one more window once the clock is right, and not for as
// long as it was ahead. Nothing of it is forgotten.
func TestScriptClockWasAhead(t *testing.T) {
	const day = 24 * 3600 * 1_000_000
	servers(t, func(t *testing.T, rdb *redis.Client) {
		for name, limits := range map[string][]core.Limit{
			"log":          {core.PerMinute(5)},
			"counter":      {core.PerMinute(5).Using(core.SlidingCounter)},
			"log of costs": {core.PerMinute(300_000)},
			"large counter": {
				core.PerMinute(core.MaxCounterRequests).Using(core.SlidingCounter),
			},
			"several": {
				core.PerHour(100), core.PerMinute(5), core.PerMinute(8).Using(core.SlidingCounter).Named("c"),
				core.PerHour(9).Using(core.SlidingCounter).Named("d"),
			},
		} {
			least := limits[0].Requests
			for _, l := range limits {
				least = min(least, l.Requests)
			}
			for _, cost := range []int64{1, least / 5} {
				rdb.FlushAll(ctx)
				c := bind(t, rdb, limits...)
				now := int64(1_790_000_000_000_000)
				for range 5 {
					if d := c.takeAt(t, "k", cost, true, now+day); !d.Allowed {
						t.Fatalf("%s: %+v", name, d)
					}
				}
				want := least + 1 - 5*cost // is too much
				before := dump(t, rdb, c, "k")
				peek := c.takeAt(t, "k", want, false, now)
				if after := dump(t, rdb, c, "k"); after != before {
					t.Errorf("%s: a peek made %s of %s", name, after, before)
				}
				got := c.takeAt(t, "k", want, true, now)
				if got != peek || got.Allowed || got.Remaining != least-5*cost || got.RetryAfter > 2*time.Minute {
					t.Errorf("%s, cost %d: %+v, a peek said %+v", name, want, got, peek)
				}
				again := now + got.RetryAfter.Microseconds()
				if d := c.takeAt(t, "k", want, true, again-1); d.Allowed || d.RetryAfter != time.Microsecond {
					t.Errorf("%s: 1 us too early: %+v", name, d)
				}
				if d := c.takeAt(t, "k", want, true, again); !d.Allowed || d.At.UnixMicro() != again {
					t.Errorf("%s: when told to come: %+v", name, d)
				}
			}
		}
	})
}

// TestScriptClockWasAheadTogether: of requests that are decided in one script, the first
// rewrites what is too far ahead, and those that follow find it.
func TestScriptClockWasAheadTogether(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		c := bind(t, rdb, core.PerHour(5), core.PerHour(6).Using(core.SlidingCounter).Named("counter"))
		keys := c.keys(nil, "k")
		later := time.Now().Add(48 * time.Hour)
		for i := range int64(3) {
			rdb.RPush(ctx, keys[0].(string), logEntry(later, 0, 1+i))
		}
		rdb.Set(ctx, keys[1].(string), counterValue(later.Truncate(time.Hour), 1, 2), 0)
		batch := make([]*call, 4)
		for i := range batch {
			batch[i] = &call{Request: asking(c, "k", 1, true)}
		}
		args := c.script.batches.command(batch)
		now, reply := timed(t, rdb.Do(ctx, append([]any{"eval", c.script.source}, args[2:]...)...))
		for i, r := range batch {
			var d core.Decision
			var err error
			d, reply, err = r.Request.ledger.read(reply, now, &core.Ask{Cost: 1})
			if err != nil || d.Allowed != (i < 2) || d.Remaining != max(0, 1-int64(i)) || d.RetryAfter > time.Hour {
				t.Errorf("request %d: %+v, %v", i, d, err)
			}
		}
		if n := rdb.LLen(ctx, keys[0].(string)).Val(); n != 3 {
			t.Errorf("a log of %d entries, want those before, and two", n)
		}
		for _, key := range keys {
			if ttl := rdb.PTTL(ctx, key.(string)).Val(); ttl < time.Hour || ttl > 2*time.Hour+2*time.Second {
				t.Errorf("%v has a TTL of %v", key, ttl)
			}
		}
	})
}

// TestScriptStampsInBatch: each request of a batch is counted at a stamp of its own, which is later than TIME for a
// client that was counted ahead of it.
func TestScriptStampsInBatch(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		c := bind(t, rdb, core.PerHour(5))
		newest := func(client string) string { return rdb.LIndex(ctx, c.keys(nil, client)[0].(string), -1).Val()[:6] }
		later := time.Now().Add(time.Minute) // less than the allowance
		rdb.RPush(ctx, c.keys(nil, "b")[0].(string), logEntry(later, 0, 1))
		var batch []*call
		for _, client := range []string{"a", "b", "c"} {
			batch = append(batch, &call{Request: asking(c, client, 1, true)})
		}
		args := c.script.batches.command(batch)
		now, _ := timed(t, rdb.Do(ctx, append([]any{"eval", c.script.source}, args[2:]...)...))
		for client, want := range map[string]int64{"a": now, "b": later.UnixMicro(), "c": now} {
			if got := newest(client); got != big48(want) {
				t.Errorf("%s is counted at %x, want %x", client, got, big48(want))
			}
		}
	})
}

// TestScriptClockWasAheadTail: what was counted before the clock was ahead keeps its time,
// dropped entries stay dropped, and the rest becomes one entry.
func TestScriptClockWasAheadTail(t *testing.T) {
	const minute, hour = 60 * 1_000_000, 3600 * 1_000_000
	servers(t, func(t *testing.T, rdb *redis.Client) {
		for old := range int64(16) {
			for _, ahead := range []int64{7 * minute, 25 * minute, 48 * hour} {
				cost := 1 + 2*(old%2)
				rdb.FlushAll(ctx)
				limits := []core.Limit{core.PerHour(50)}
				c := bind(t, rdb, limits...)
				var client model.Client
				now := int64(1_790_000_000_000_000)
				take := func(cost int64, charge bool) {
					t.Helper()
					got := c.takeAt(t, "k", cost, charge, now)
					if want := client.Decide(limits, time.UnixMicro(now), cost, charge); got != want {
						t.Fatalf("%d old ones, %d ahead, cost %d at %d:\n got %+v\nwant %+v", old, ahead, cost, now, got, want)
					}
				}
				for range old { // 5 minutes apart, so that some expire
					take(cost, true)
					now += 5 * minute
				}
				now += ahead
				take(cost, true)
				take(1, true)
				now -= ahead
				for n := range int64(50) {
					take(1+n, false)
				}
				take(50, true) // refused where anything counts, and written all the same
				for n := range int64(50) {
					take(1+n, false)
				}
				take(1, true)
				for range 15 {
					now += 5 * minute
					take(20, false)
					take(2, true)
				}
				now += 2 * hour
				take(50, false)
			}
		}
	})
}

// TestScriptClockWasAheadWhenFull: a server without memory refuses a client that it knows.
// It has what a log holds count from now on, which takes no memory, but not a counter.
func TestScriptClockWasAheadWhenFull(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	for _, a := range []core.Algorithm{core.SlidingLog, core.SlidingCounter} {
		rdb.FlushAll(ctx)
		c := bind(t, rdb, core.PerHour(2).Using(a))
		key := c.keys(nil, "k")[0].(string)
		later := time.Now().Add(48 * time.Hour)
		if a == core.SlidingLog {
			rdb.RPush(ctx, key, logEntry(later, 0, 1), logEntry(later, 0, 2))
		} else {
			rdb.Set(ctx, key, counterValue(later.Truncate(time.Hour), 0, 2), 0)
		}
		before := dump(t, rdb, c, "k")
		rdb.ConfigSet(ctx, "maxmemory", "1")
		d, err := c.askAlone(ctx, time.Time{}, "k", 1, true)
		if err != nil || d.Allowed || d.RetryAfter > 2*time.Hour {
			t.Errorf("%v: %+v, %v", a, d, err)
		}
		larger := bind(t, rdb, core.PerHour(3).Using(a))
		if d, err := larger.askAlone(ctx, time.Time{}, "k", 1, true); err == nil || !strings.Contains(err.Error(), "OOM") {
			t.Errorf("%v: %+v, %v", a, d, err)
		}
		if after := dump(t, rdb, c, "k"); (after != before) != (a == core.SlidingLog) {
			t.Errorf("%v: %s became %s", a, before, after)
		}
		rdb.ConfigSet(ctx, "maxmemory", "0")
	}
}
