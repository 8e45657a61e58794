//go:build !race && !short

package script_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/lease"
	"github.com/sashlimit/sash/core/internal/model"
	"github.com/sashlimit/sash/core/internal/window"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
)

var long = flag.Bool("long", false, "go through many times as many random histories")

// histories returns how many random histories the test goes through.
func histories() uint64 {
	if *long {
		return 450
	}
	return 60
}

// walk is a random history of two clients under a rule.
type walk struct {
	*testing.T
	rdb     *redis.Client
	rng     *rand.Rand
	where   string // for errors
	rule    *ledger
	limits  []core.Limit
	bits    int // of most costs
	clients [2]*walker
	now     int64
	near    int // for how many steps the clock still stays about a moment
	last    core.Decision
	seen    *seen
}

// walker is a client, and what the model counts for it.
type walker struct {
	model.Client
	key              string
	lives            *lifetimes
	highest, charged int64 // the latest times of the clock since what is there was written anew, and until a charge
	backs            []core.Refund
}

// seen counts what has happened in histories.
type seen struct{ rewound, returned, leased int }

// randomLimits returns limits, and how many bits the costs have.
func randomLimits(rng *rand.Rand, seed uint64) (limits []core.Limit, bits int) {
	limits, bits = make([]core.Limit, 1+rng.IntN(3)), 2
	if seed%15 == 14 {
		limits = make([]core.Limit, script.MaxLimits) // their variables fit into the script
	}
	if rng.IntN(3) == 0 {
		bits = 2 + rng.IntN(37)
	}
	usual := rng.IntN(3) == 0 // the windows stand in the script
	for i := range limits {
		w := time.Duration(1000+rng.Int64N(100_000)) * time.Microsecond
		switch n := rng.IntN(6); {
		case usual:
			w = []time.Duration{time.Second, time.Minute, time.Hour}[n/2]
		case n == 0:
			w = core.MinWindow
		case n == 1:
			w = core.MaxWindow - time.Duration(rng.IntN(1000))*time.Microsecond
		}
		limits[i] = core.Per(0, w).Named(fmt.Sprint(i)).Using(core.Algorithm(rng.IntN(len(core.Algorithms()))))
		for leased := seed%4 == 3; leased && !limits[i].Algorithm.CanLease(); {
			limits[i].Algorithm = core.Algorithm(rng.IntN(len(core.Algorithms())))
		}
		limits[i].Requests = randomRequests(rng, limits[i].Algorithm, bits)
	}
	return limits, bits
}

// randomRequests returns how many requests a limit admits: few, for costs of so many bits, or as many as may be.
func randomRequests(rng *rand.Rand, a core.Algorithm, bits int) int64 {
	if rng.IntN(6) == 0 {
		return mostRequests(a) - rng.Int64N(10)
	}
	return min(mostRequests(a), 1+rng.Int64N(3<<bits))
}

func mostRequests(a core.Algorithm) int64 {
	switch a {
	case core.SlidingLog:
		return core.MaxLogRequests
	case core.SlidingCounter:
		return core.MaxCounterRequests / 2 // two windows become one if the clock steps back: see TestScriptFarAhead
	}
	return core.MaxCounterRequests
}

func newWalk(t *testing.T, rdb *redis.Client, seed uint64, seen *seen) *walk {
	w := &walk{T: t, rdb: rdb, rng: rand.New(rand.NewPCG(seed, 11)), seen: seen}
	w.limits, w.bits = randomLimits(w.rng, seed)
	w.now = 1_790_000_000_000_000 + w.rng.Int64N(1e12)
	w.rule = bind(t, rdb, w.limits...)
	for i := range w.clients {
		w.clients[i] = &walker{
			key: fmt.Sprintf("client %d of %d", i, seed), lives: newLifetimes(w.limits), highest: w.now, charged: w.now,
		}
	}
	return w
}

// tick moves the clock, by a part of a window or by some, or to and fro by microseconds about a moment at which a unit
// leaves or a window begins.
func (w *walk) tick() {
	window := w.limits[w.rng.IntN(len(w.limits))].Window.Microseconds()
	switch n := w.rng.IntN(15); {
	case w.near > 0:
		w.near--
		w.now += w.rng.Int64N(5) - 2
	case w.last.ResetAfter > 0 && n < 2:
		w.near = 5
		w.now += w.last.ResetAfter.Microseconds() - 1
	case n == 2:
		w.now -= w.rng.Int64N(2 * window)
	case n == 3:
		w.now -= w.rng.Int64N(window / 5) // about as far as is let pass
	case n == 4:
		w.now += w.rng.Int64N(3 * window)
	case n == 5:
		w.near = 5
		w.now -= w.now % window // where one begins
	case n > 6:
		w.now += w.rng.Int64N(window / 4)
	}
	const most = 2 * int64(core.MaxWindow/time.Microsecond) // twice that is half the range of a stamp
	for _, c := range w.clients {
		w.now = max(w.now, c.highest-most)
		if c.highest = max(c.highest, w.now); w.now > c.charged+most {
			w.forget(c) // as the TTL would have
		}
	}
}

// forget resets a client.
func (w *walk) forget(c *walker) {
	w.rdb.Do(ctx, w.rule.rule.Keys([]any{"del"}, c.key)...)
	c.Client = model.Client{}
}

// changed returns limits of which one is raised or lowered.
func (w *walk) changed() []core.Limit {
	limits := slices.Clone(w.limits)
	l := &limits[w.rng.IntN(len(limits))]
	l.Requests = randomRequests(w.rng, l.Algorithm, w.bits)
	return limits
}

// rules returns two rules of one script, with the same counts.
func (w *walk) rules() (all [2]*ledger) {
	most := time.Duration(0)
	terms, ok := lease.Terms{Size: math.MaxInt64, Lifetime: lease.MaxLifetime}.For(w.limits)
	if ok && w.rng.IntN(2) == 0 {
		most = terms.Lifetime
	}
	for i, limits := range [][]core.Limit{w.limits, w.changed()} {
		ahead := most - time.Duration(w.rng.Int64N(int64(most/2)+1)).Truncate(time.Microsecond)
		all[i] = w.rule.with(limits, ahead)
	}
	return all
}

// cost returns a cost: now and then more than any limit admits, or what remains, or a unit more.
func (w *walk) cost() int64 {
	switch n := w.rng.IntN(20); {
	case n == 0:
		return 1 << 61
	case n < 3:
		return w.last.Remaining + w.rng.Int64N(2)
	case n < 9:
		return 1
	}
	return w.rng.Int64N(1 << w.bits)
}

// holds reports whether a client's counts hold so many units more. Of a charge beyond that they may keep some.
func (w *walk) holds(c *walker, units int64) bool {
	return !slices.ContainsFunc(c.Usage(w.limits, time.UnixMicro(w.now)), func(u core.Usage) bool {
		return units > mostRequests(u.Limit.Algorithm)-u.Used
	})
}

// ask has the script decide some requests together.
func (w *walk) ask() {
	rules := w.rules()
	batch := make([]request, 1+max(0, w.rng.IntN(7)-4))
	var of []*walker
	for i := range batch {
		c := w.clients[w.rng.IntN(2)]
		rule := rules[w.rng.IntN(4)/3]
		ask := core.Ask{Key: c.key, Cost: w.cost(), Peek: w.rng.IntN(5) == 0}
		delay := time.Duration(rule.rule.Delay) * time.Microsecond
		ask.Override = &core.Override{Limits: rule.rule.Limits, Delay: delay}
		ask.Override.Charge = i == 0 && w.rng.IntN(4) == 0 && !ask.Peek && w.holds(c, ask.Cost)
		batch[i], of = request{ask, rule}, append(of, c)
		if ask.Override.Delay > 0 {
			w.seen.leased++
		}
	}
	before := w.held()
	reply := rules[0].runAt(w.T, rules[0].rule.Script, command(batch), w.now)
	decisions, errs := readTogether(batch, reply)
	written := map[*walker]bool{}
	for i, r := range batch {
		c, at := of[i], time.UnixMicro(w.now)
		charge, ahead := !r.Peek && r.Cost > 0, c.Ahead(w.limits, at)
		c.lives.before(&c.Client, w.now, charge)
		got, want := decisions[i], c.Ask(r.Override.Limits, at, r.Ask)
		if errs[i] != nil || got != want {
			w.Fatalf("%s: request %d of %d, %+v, %+v:\n got %+v, %v\nwant %+v\nbefore %s",
				w.where, i, len(batch), r.Ask, r.Override, got, errs[i], want, before)
		}
		w.last = got
		if charge && ahead {
			// What was ahead has been written anew, with a TTL by this clock.
			w.seen.rewound++
			c.highest, c.charged, written[c] = w.now, w.now, true
		}
		if charge && got.Allowed {
			written[c], c.charged = true, c.highest
			c.backs = append(c.backs, core.Refund{Key: c.key, Cost: r.Cost, At: got.At, Limits: r.Override.Limits})
		}
	}
	if after := w.held(); len(written) == 0 && after != before {
		w.Fatalf("%s: %+v changed Redis:\n%q\n%q", w.where, batch, before, after)
	}
	for c := range written {
		w.checkTTLs(c)
	}
}

// held is all that Redis holds for the clients.
func (w *walk) held() string {
	return dump(w.T, w.rdb, w.rule, w.clients[0].key) + dump(w.T, w.rdb, w.rule, w.clients[1].key)
}

// giveBack gives units back, which may be more than the request has counted.
func (w *walk) giveBack() {
	c := w.clients[w.rng.IntN(2)]
	if len(c.backs) == 0 {
		return
	}
	i, before := max(0, len(c.backs)-1-w.rng.IntN(12)), w.held()
	back := c.backs[i]
	back.Units = 1 + w.rng.Int64N(back.Cost+1)
	back.Cost = max(back.Cost, back.Units)
	if w.rng.IntN(4) == 0 {
		w.now = max(w.now, w.leaves(back.At.UnixMicro())-w.rng.Int64N(2))
	}
	c.lives.before(&c.Client, w.now, false)
	got, want := w.rule.returnAt(w.T, back, w.now), c.Return(w.limits, time.UnixMicro(w.now), back)
	if got != want {
		w.Fatalf("%s: %+v: %d units taken back, want %d\nbefore %s", w.where, back, got, want, before)
	}
	if got > 0 {
		w.seen.returned++
		c.backs = append(c.backs[:i], c.backs[i+1:]...)
	}
	w.checkTTLs(c)
}

// leaves returns when a unit leaves a window, by one of the algorithms.
func (w *walk) leaves(at int64) int64 {
	limit := w.limits[w.rng.IntN(len(w.limits))]
	window, slot := limit.Window.Microseconds(), slotOf(limit).Microseconds()
	return []int64{at + window, at - at%slot + slot - 1 + window, at - at%window + 2*window}[w.rng.IntN(3)]
}

func (w *walk) checkTTLs(c *walker) {
	if err := c.lives.check(w.rdb, w.rule.rule.Keys(nil, c.key), &c.Client, w.now); err != nil {
		w.Fatalf("%s: %v", w.where, err)
	}
}

// TestScriptAgainstModel runs random histories through the scripts and the model, and compares every answer: requests
// that are decided together, leases, charges, peeks, and units that are given back, by limits that are raised and
// lowered, on a clock that jumps and steps back. A request that is refused, free or a peek must expire Redis as it was,
// but for what is too far ahead of the clock; every key must have a TTL that outlives its state by little.
func TestScriptAgainstModel(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		var seen seen
		for seed := range histories() {
			w := newWalk(t, rdb, seed, &seen)
			for step := range 80 {
				w.tick()
				w.where = fmt.Sprintf("seed %d step %d: %v at %d", seed, step, w.limits, w.now)
				switch w.rng.IntN(24) {
				case 0:
					w.limits = w.changed()
				case 1:
					w.forget(w.clients[0])
				case 2, 3, 4, 5, 6, 7, 8:
					w.giveBack()
				default:
					w.ask()
				}
			}
			rdb.FlushAll(ctx)
		}
		t.Logf("proved: %s: %d histories: %+v", t.Name(), histories(), seen)
		if seen.rewound < 100 || seen.returned < 300 || seen.leased < 50 {
			t.Errorf("too little has happened: %+v", seen)
		}
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
		l.allowance = min(l.allowance, window.AllowedLead(limit.Window.Microseconds()))
	}
	return l
}

// before is called before each step. What is too far ahead of now is written anew by a step that writes.
func (l *lifetimes) before(client *model.Client, now int64, writes bool) {
	for i, limit := range l.limits {
		if l.latest[i] = max(l.latest[i], now); writes && client.MinStamp(limit)-now > l.allowance {
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
		w, begun := limit.Window, client.MinStamp(limit)
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
