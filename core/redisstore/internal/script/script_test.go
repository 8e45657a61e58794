//go:build !race && !short

package script_test

import (
	"context"
	"flag"
	"fmt"
	"math"
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
	"github.com/sashlimit/sash/core/internal/window"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
	"github.com/sashlimit/sash/internal/redistest"
)

var ctx = context.Background()

// longer is how much longer than by the script a key of a clocked script lives: Redis
// expires keys by its own clock, which goes on while a busy machine runs a test.
const longer = time.Hour

// clocked is a script with two changes: the time comes from the first two
// arguments, see at, instead of the server; and keys live longer.
func clocked(t *testing.T, source string) script.Script {
	t.Helper()
	if s, ok := clockedScripts.Load(source); ok {
		return s.(script.Script)
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
	s := script.Make(strings.ReplaceAll(changed, ttl, fmt.Sprint(ttl, " + ", longer.Milliseconds())))
	clockedScripts.Store(source, s)
	return s
}

var clockedScripts sync.Map // by source: tests ask thousands of times

// at is c at a time of a clocked script.
func (c *ledger) at(t *testing.T, now int64) *ledger {
	t.Helper()
	seconds, micros := strconv.FormatInt(now/1_000_000, 10), strconv.FormatInt(now%1_000_000, 10)
	rule := c.rule
	rule.Script, rule.Args = clocked(t, c.rule.Script.Source), append([]any{seconds, micros}, c.rule.Args...)
	return &ledger{c.rdb, rule}
}

// takeAt decides when the server's clock shows now.
func (c *ledger) takeAt(t *testing.T, key string, cost int64, charge bool, now int64) core.Decision {
	t.Helper()
	d, err := c.at(t, now).Take(ctx, core.Ask{Key: key, Cost: cost, Peek: !charge})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// servers runs a test on a real server, on miniredis, and with Lua 5.4, at the same time.
func servers(t *testing.T, test func(t *testing.T, rdb *redis.Client)) {
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Start(t).Client(t))
	})
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		test(t, slowClient(t, miniredis.RunT(t)))
	})
	t.Run("Lua 5.4", func(t *testing.T) {
		t.Parallel()
		rdb, _ := startLua54(t)
		test(t, rdb)
	})
}

// slowClient returns a client of a miniredis, where a script of a thousand commands takes seconds on a busy machine.
func slowClient(t *testing.T, m *miniredis.Miniredis) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr(), ReadTimeout: time.Minute})
	t.Cleanup(func() { rdb.Close() })
	return rdb
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
		limits[i] = limits[i].Using(core.Algorithm(rng.IntN(len(core.Algorithms()))))
		if limits[i].Algorithm != core.SlidingLog && rng.IntN(5) == 0 {
			limits[i].Requests = core.MaxCounterRequests - rng.Int64N(10)
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
			c, lives := bind(t, rdb, limits...), newLifetimes(limits)
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
				lives.before(&client, now, charge && cost > 0)
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
				if err := lives.check(rdb, c.rule.Keys(nil, key), &client, now); err != nil {
					t.Fatalf("seed %d step %d: %v", seed, step, err)
				}
			}
			rdb.FlushAll(ctx)
		}
		if rewound < 100 {
			t.Errorf("only %d requests found something too far ahead", rewound)
		}
		t.Logf("proved: %s: %d histories, %d times something was too far ahead", t.Name(), histories(120), rewound)
	})
}

// lifetimes are the TTLs of a client's keys in a history.
type lifetimes struct {
	limits    []core.Limit
	allowance int64
	latest    []int64 // the latest time of the clock since a key was last written anew
	ahead     []int64 // how far ahead of the clock a key has counted at most
	began     time.Time
}

func newLifetimes(limits []core.Limit) *lifetimes {
	l := &lifetimes{limits, math.MaxInt64, make([]int64, len(limits)), make([]int64, len(limits)), time.Now()}
	for _, limit := range limits {
		l.allowance = min(l.allowance, window.Allowance(limit.Window.Microseconds()))
	}
	return l
}

// before is called before each step. What is too far ahead of now is written anew by a step that writes.
func (l *lifetimes) before(client *model.Client, now int64, writes bool) {
	for i, limit := range l.limits {
		if l.latest[i] = max(l.latest[i], now); writes && client.Begun(limit)-now > l.allowance {
			l.latest[i] = now
		}
	}
}

// check holds the TTLs of the keys against what they hold: a key outlives it, and by little.
func (l *lifetimes) check(rdb *redis.Client, keys []any, client *model.Client, now int64) error {
	ttls, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.PTTL(ctx, key.(string))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, limit := range l.limits {
		ttl := ttls[i].(*redis.DurationCmd).Val()
		if ttl == -2 { // no key
			continue
		}
		w, begun := limit.Window, client.Begun(limit)
		l.ahead[i] = max(l.ahead[i], l.allowance, begun-now)
		counts, most := w, w*3/2
		switch limit.Algorithm {
		case core.SlidingCounter:
			counts, most = 2*w, 2*w
		case core.CoarseLog:
			counts += slotOf(limit) - time.Microsecond
			most = counts
		case core.Bucket: // until it is full
			counts = client.Usage([]core.Limit{limit}, time.UnixMicro(begun))[0].ResetAfter
			most = counts + 5*w/2
		}
		least := counts + time.Duration(begun-l.latest[i])*time.Microsecond - time.Since(l.began)
		most += time.Duration(l.ahead[i])*time.Microsecond + 2*time.Second
		if ttl -= longer; ttl < least || ttl > most {
			return fmt.Errorf("%v has a TTL of %v, want %v to %v", limit, ttl, least, most)
		}
	}
	return nil
}

func slotOf(l core.Limit) time.Duration {
	return time.Duration(window.Limit{W: l.Window.Microseconds()}.Slot()) * time.Microsecond
}

// dump is all that Redis holds for a client, asked for in one round trip: half of what
// it asks of each key is an error, for a key of another type.
func dump(t *testing.T, rdb *redis.Client, c *ledger, key string) string {
	t.Helper()
	keys := c.rule.Keys(nil, key)
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
