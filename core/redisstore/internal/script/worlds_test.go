//go:build !race && !short

package script_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/model/statespace"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
	"github.com/sashlimit/sash/internal/redistest"
)

// stored is what Redis holds under a key: nothing, a list, or a list of one for a text.
type stored struct {
	list  []string
	until int64 // when the key goes, by the server's clock
}

// history is what Redis holds of a client, and what the client has used by the definition.
type history struct {
	now    int64
	latest int64 // that the clock has shown
	keys   []stored
	client statespace.Client
}

// world is a server, and a client under a rule.
type world struct {
	*testing.T
	rdb    *redis.Client
	ledger *ledger
	rule   statespace.Rule
	other  *world        // by the same counts with other numbers, where one is a bucket
	period int64         // after which the clock means the same
	ticks  []int64       // by which the clock goes on or back
	grid   time.Duration // TTLs are multiples of it
}

// newSmallWorld returns a world under limits of some units in some ticks. The clock steps by ticks, and if it is fine
// back by as much as is let pass too.
func newSmallWorld(t *testing.T, rdb *redis.Client, fine bool, limits ...statespace.Limit) *world {
	w := &world{T: t, rdb: rdb, period: 1, grid: 50 * time.Millisecond}
	w.rule.AllowedLead = math.MaxInt64
	var all []core.Limit
	tick := int64(600_000) // a slot of a window of n ticks is of n*40 ms
	for i, l := range limits {
		l.W *= tick
		w.rule.Limits = append(w.rule.Limits, l)
		w.rule.AllowedLead = min(w.rule.AllowedLead, l.W/8)
		all = append(all, core.Per(l.N, time.Duration(l.W)*time.Microsecond).Using(l.Algorithm).Named(strconv.Itoa(i)))
		switch l.Algorithm {
		case core.SlidingCounter:
			w.period = max(w.period, l.W)
		case core.CoarseLog:
			w.period = max(w.period, l.W/60)
			tick += l.W / 120
			w.grid = 10 * time.Millisecond
		}
	}
	w.ticks = []int64{tick, -tick}
	if fine {
		w.ticks = append(w.ticks, -w.rule.AllowedLead)
	}
	w.ledger = bind(t, rdb, all...)
	if i := slices.IndexFunc(all, func(l core.Limit) bool { return l.Algorithm == core.Bucket }); i >= 0 {
		o := *w
		o.rule.Limits, all = slices.Clone(w.rule.Limits), slices.Clone(all)
		o.rule.Limits[i].N, all[i].Requests = w.rule.Limits[i].N+1, all[i].Requests+1
		o.rule.Limits[i].W, all[i].Window = w.rule.Limits[i].W*3/2, all[i].Window*3/2
		o.rule.AllowedLead = math.MaxInt64
		for _, l := range o.rule.Limits {
			o.rule.AllowedLead = min(o.rule.AllowedLead, l.W/8)
		}
		o.ledger = w.ledger.with(all, 0)
		w.other = &o
	}
	return w
}

// explore goes through all histories.
func (w *world) explore() (statespace.Stats, error) {
	n := len(w.rule.Limits)
	now := 1_790_000_000_000_000 / w.period * w.period
	start := history{now: now, latest: now, keys: make([]stored, n), client: make(statespace.Client, n)}
	return statespace.Explore(start, w.key, w.next)
}

// check holds a reply against the definition, and returns what the client has used then.
type check func(reply string) (statespace.Client, error)

// trial is something to be done to Redis, and what becomes of it.
type trial struct {
	name  string
	args  []any
	reply *redis.Cmd
	check
	key   string
	from  *history
	after []redis.Cmder // what Redis holds then, and for how long, by key
}

const marker = 1000 * time.Hour // the TTL of a key before a trial

func (w *world) next(some []history) (steps [][]statespace.Step[history], wrong int, err error) {
	var all []*trial
	steps = make([][]statespace.Step[history], len(some))
	ends := make([]int, len(some))
	for i := range some {
		all = append(all, w.trials(&some[i], len(all))...)
		ends[i] = len(all)
	}
	if _, err := w.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, one := range all {
			w.send(p, one)
		}
		return nil
	}); err != nil {
		return nil, 0, err
	}
	for i, j := 0, 0; i < len(some); i++ {
		for ; j < ends[i]; j++ {
			to, err := w.outcome(all[j])
			if err != nil {
				return nil, i, fmt.Errorf("%s: %w", all[j].name, err)
			}
			steps[i] = append(steps[i], statespace.Step[history]{Name: all[j].name, To: to})
		}
		steps[i] = append(steps[i], w.moves(some[i])...)
	}
	return steps, 0, nil
}

// moves are the steps without a script.
func (w *world) moves(h history) (all []statespace.Step[history]) {
	n := len(w.rule.Limits)
	for _, tick := range w.ticks {
		to := h
		to.now += tick
		to.latest = max(h.latest, to.now)
		if to.latest-to.now > w.ticks[0] || w.rule.Expired(h.client, to.now, to.latest) {
			continue // what has expired may be forgotten, and a clock that steps back does not bring it back
		}
		to.keys = slices.Clone(h.keys)
		for i := range to.keys {
			if to.keys[i].until <= to.now {
				to.keys[i] = stored{}
			}
		}
		all = append(all, statespace.Step[history]{Name: fmt.Sprintf("%+d ms", tick/1000), To: to})
	}
	reset := history{h.now, h.latest, make([]stored, n), make(statespace.Client, n)}
	return append(all, statespace.Step[history]{Name: "reset", To: reset})
}

// send has Redis hold what a trial begins with, tries it, and asks what Redis holds then.
func (w *world) send(p redis.Pipeliner, one *trial) {
	keys := w.ledger.rule.Keys(nil, one.key)
	for i, l := range w.rule.Limits {
		key, list := keys[i].(string), one.from.keys[i].list
		switch {
		case len(list) == 0:
			continue
		case l.Algorithm == core.SlidingLog:
			p.RPush(ctx, key, list)
		default:
			p.Set(ctx, key, list[0], 0)
		}
		p.PExpire(ctx, key, marker)
	}
	one.reply = p.Do(ctx, one.args...)
	for i, l := range w.rule.Limits {
		key := keys[i].(string)
		if l.Algorithm == core.SlidingLog {
			one.after = append(one.after, p.LRange(ctx, key, 0, -1))
		} else {
			one.after = append(one.after, p.GetRange(ctx, key, 0, -1))
		}
		one.after = append(one.after, p.PTTL(ctx, key))
		p.Del(ctx, key)
	}
}

// outcome returns the history after a trial.
func (w *world) outcome(one *trial) (to history, err error) {
	reply, err := one.reply.Text()
	if err != nil {
		return to, err
	}
	to = history{now: one.from.now, latest: one.from.latest}
	if to.client, err = one.check(reply); err != nil {
		return to, err
	}
	for i := range w.rule.Limits {
		var k stored
		if list, ok := one.after[2*i].(*redis.StringSliceCmd); ok {
			k.list = list.Val()
		} else if text := one.after[2*i].(*redis.StringCmd).Val(); text != "" {
			k.list = []string{text}
		}
		switch ttl := one.after[2*i+1].(*redis.DurationCmd).Val(); {
		case len(k.list) == 0:
		case ttl < 0:
			return to, fmt.Errorf("limit %d has no TTL", i)
		case ttl > marker/2:
			k.until = one.from.keys[i].until
		default:
			// Redis has counted it down by its own clock, for less than the grid.
			k.until = to.now + (ttl - longer + w.grid - time.Millisecond).Truncate(w.grid).Microseconds()
		}
		to.keys = append(to.keys, k)
	}
	return to, nil
}

// trials are the scripts that may run in a state.
func (w *world) trials(h *history, number int) (all []*trial) {
	add := func(name string, make func(key string) ([]any, check)) {
		key := strconv.Itoa(number + len(all))
		args, check := make(key)
		all = append(all, &trial{name: name, args: args, key: key, from: h, check: check})
	}
	ask := func(asks ...asked) {
		add(fmt.Sprint(asks), func(key string) ([]any, check) { return w.ask(h, key, asks) })
	}
	n := w.rule.Limits[0].N
	for cost := range min(n, 2) {
		ask(asked{statespace.Take, cost + 1})
	}
	ask(asked{statespace.Peek, 1})
	ask(asked{statespace.Take, n + 1})
	by := w.rule.Limits[len(w.rule.Limits)-1] // the bucket, if there is one
	for _, u := range h.client[len(h.client)-1] {
		for units := range int64(2) {
			name, w := fmt.Sprintf("return %d of %d ago", units+1, h.now-u.At), w
			if by.Algorithm == core.Bucket && units >= u.N {
				continue
			}
			if by.Algorithm == core.Bucket && u.Limit != by {
				w = w.other
			}
			add(name, func(key string) ([]any, check) { return w.giveBack(h, key, u.At, u.N, units+1) })
		}
	}
	if w.other != nil {
		one := []asked{{statespace.Take, 1}}
		add("take by others", func(key string) ([]any, check) { return w.other.ask(h, key, one) })
	}
	if by.Algorithm == core.Bucket && by.Used(h.client[len(h.client)-1], h.now) >= n {
		return all
	}
	if h.most() <= n {
		ask(asked{statespace.Charge, 1})
		ask(asked{statespace.Take, 1}, asked{statespace.Charge, 1}, asked{statespace.Take, 1})
	}
	return all
}

// most returns how many units the client has at most under a limit.
func (h *history) most() (most int64) {
	for _, past := range h.client {
		held := int64(0)
		for _, u := range past {
			held += u.N
		}
		most = max(most, held)
	}
	return most
}

type asked struct {
	verb statespace.Verb
	cost int64
}

// ask returns the call of a script that decides requests of a client, each followed by one of a client that has used
// nothing, and what holds the reply against the definition.
func (w *world) ask(h *history, key string, asks []asked) ([]any, check) {
	var batch []request
	for i, a := range asks {
		one := asking(w.ledger, key, a.cost, a.verb != statespace.Peek)
		if a.verb == statespace.Charge {
			one.Override = &core.Override{Charge: true}
		}
		if batch = append(batch, one); i+1 < len(asks) {
			batch = append(batch, asking(w.ledger, "another", 1, false))
		}
	}
	return callAt(w.T, w.ledger.rule.Script, command(batch), h.now), func(reply string) (statespace.Client, error) {
		client, other := h.client, make(statespace.Client, len(w.rule.Limits))
		decisions, errs := readTogether(batch, reply)
		for i, d := range decisions {
			if errs[i] != nil {
				return nil, errs[i]
			}
			if i%2 == 1 {
				if want, _, _ := w.rule.Ask(other, h.now, 1, statespace.Peek); answerOf(d) != want {
					return nil, fmt.Errorf("of another client: got %+v, want %+v", d, want)
				}
				continue
			}
			a := asks[i/2]
			want, after, stamp := w.rule.Ask(client, h.now, a.cost, a.verb)
			if client = after; answerOf(d) != want || d.Allowed && d.At.UnixMicro() != stamp {
				return nil, fmt.Errorf("%v: got %+v, want %+v at %d", a, d, want, stamp)
			}
		}
		return client, nil
	}
}

func answerOf(d core.Decision) statespace.Answer {
	a := statespace.Answer{
		Admitted: d.Allowed, Remaining: d.Remaining,
		ResetAfter: d.ResetAfter.Microseconds(), RetryAfter: d.RetryAfter.Microseconds(),
	}
	if d.RetryAfter == math.MaxInt64 {
		a.RetryAfter = statespace.Never
	}
	return a
}

// giveBack returns the call of the script that takes units back, and what holds the reply against the definition.
func (w *world) giveBack(h *history, key string, at, cost, units int64) ([]any, check) {
	back := core.Refund{Key: key, Cost: cost, At: time.UnixMicro(at), Units: units}
	args := callAt(w.T, script.Return(), w.ledger.rule.ReturnArgs(script.Return(), back), h.now)
	return args, func(reply string) (statespace.Client, error) {
		want, after := w.rule.Return(h.client, h.now, at, cost, units)
		if reply != strconv.FormatInt(want, 10) {
			return nil, fmt.Errorf("%s units count no more, want %d", reply, want)
		}
		return after, nil
	}
}

// key tells states apart. Of a list, how many entries are dropped matters, and not what they were; and totals matter by
// their differences.
func (w *world) key(h history) string {
	nearest, uint48, uint24 := script.Nearest, script.Uint48, script.Uint24
	key := binary.AppendVarint(binary.AppendVarint(nil, h.now%w.period), h.latest-h.now)
	add := func(numbers ...int64) {
		for _, n := range numbers {
			key = binary.AppendVarint(key, n)
		}
	}
	for i, l := range w.rule.Limits {
		age := 2*l.W + l.W/2
		past, most := slices.Clone(h.client[i]), (h.most()+1)*2*l.W // more free time is not asked for
		if len(past) > 0 {
			past[0].Elapsed = min(past[0].Elapsed, most)
		}
		key = statespace.Client{past}.AppendKey(key, h.now, age)
		k := h.keys[i]
		add(max(0, k.until-h.now))
		switch {
		case len(k.list) == 0:
		case l.Algorithm == core.SlidingLog:
			newest := uint24(k.list[len(k.list)-1][6:])
			dropped, total := newest>>20, newest&(1<<20-1)
			add(dropped, int64(len(k.list)))
			for _, e := range k.list[dropped:] {
				add(max(nearest(e, h.now)-h.now, -age), (total-uint24(e[6:]))&(1<<20-1), int64(len(e)))
			}
		case l.Algorithm == core.SlidingCounter:
			add(max(nearest(k.list[0][12:], h.now)-h.now, -age), uint48(k.list[0]), uint48(k.list[0][6:]))
		case l.Algorithm == core.Bucket:
			text := k.list[0]
			add(max(nearest(text[18:], h.now)-h.now, -age), uint48(text[1:]), uint24(text[7:]))
			add(min(uint48(text[12:]), most))
		default:
			text := k.list[0]
			add(max(nearest(text[1:], h.now)-h.now, -age), int64(len(text)))
			first := uint24(text[7:])
			for j := 10; j < len(text); j += 3 {
				add((uint24(text[j:]) - first) & (1<<24 - 1))
			}
		}
	}
	return string(key)
}

// TestSmallWorlds: in every history of a client under a low limit and a short window, by a clock that steps forth and
// back, each answer of the scripts is that of the definition.
func TestSmallWorlds(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	limit := func(n, ticks int64, a core.Algorithm) statespace.Limit {
		return statespace.Limit{N: n, W: ticks, Algorithm: a}
	}
	l, c, s, b := core.SlidingLog, core.SlidingCounter, core.CoarseLog, core.Bucket
	rules := [][]statespace.Limit{
		{limit(1, 2, l)}, // with fine steps
		{limit(2, 2, l)}, {limit(2, 2, c)}, {limit(1, 2, s)}, {limit(1, 1, l), limit(1, 1, c)},
		{limit(2, 1, b)}, {limit(1, 2, b)}, {limit(1, 1, l), limit(1, 2, b)},
	}
	fine := 1
	if *long {
		fine = 2
		rules = [][]statespace.Limit{
			{limit(1, 4, l)}, {limit(1, 2, c)},
			{limit(2, 4, l)}, {limit(3, 2, l)}, {limit(3, 4, c)}, {limit(2, 1, s)},
			{limit(2, 3, b)}, {limit(1, 2, c), limit(1, 2, b)}, {limit(1, 1, l), limit(1, 2, l)},
			{limit(1, 1, l), limit(1, 2, c)},
		}
	}
	var seen statespace.Stats
	for i, rule := range rules {
		began := time.Now()
		w := newSmallWorld(t, rdb, i < fine, rule...)
		rdb.ScriptLoad(ctx, clocked(t, w.ledger.rule.Script.Source).Source)
		rdb.ScriptLoad(ctx, clocked(t, script.Return().Source).Source)
		one, err := w.explore()
		if err != nil {
			t.Errorf("%v: %v", rule, err)
		}
		t.Logf("%v: %v in %.1f s", rule, one, time.Since(began).Seconds())
		seen.Add(one)
	}
	t.Logf("proved: the scripts: all histories of %d worlds: %v", len(rules), seen)
}

// TestSmallWorldsFindMutants: scripts that count otherwise than by the definition are found out.
func TestSmallWorldsFindMutants(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	mutants := []struct {
		of          core.Algorithm
		is, becomes string
	}{
		{core.SlidingLog, "if units + cost > limit1", "if units + cost >= limit1"},
		{core.SlidingLog, "* 1.5 / 1000", "* 0.1 / 1000 - 900"},
		{core.SlidingLog, "if at1 > stamp then", "if false then"},
		{core.SlidingLog, "first1 > 8 and 0 or first1 * 1048576", "0"},
		{core.SlidingCounter, "- cost + 1 then", "- cost then"},
		{core.SlidingCounter, "if windowStart == start1 and last < 256", "if last < 256"},
		{core.SlidingCounter, "elapsed1 >= window1", "elapsed1 > window1"},
		{core.CoarseLog, "if skipped > 1 then", "if false then"},
		{core.Bucket, "1 or 0) > window1", "1 or 0) >= window1"},
		{core.Bucket, "(fraction1 > 0 and 1 or 0) > window1", "0 > window1"},
		{core.Bucket, "if at1 - now >", "if at1 + now <"},
		{core.Bucket, "owed1 - passed,", "owed1 - passed + 1,"},
		{core.Bucket, "elapsed1 + passed", "elapsed1"},
		{core.Bucket, "whole + 1, rest - limit1", "whole, rest - limit1"},
		{core.Bucket, "(owed1 + stamp - now) / 1000 + 1000", "900"},
		{core.CoarseLog, "local top = stamp - stamp % slot + slot - 1", "local top = stamp"},
		{core.CoarseLog, "cost > 0 and units + cost - limit1 or 0", "0"},
	}
	for _, m := range mutants {
		ticks := int64(2)
		if m.of == core.Bucket {
			ticks = 3 // for parts of a unit
		}
		w := newSmallWorld(t, rdb, false, statespace.Limit{N: 2, W: ticks, Algorithm: m.of})
		changed := strings.Replace(w.ledger.rule.Script.Source, m.is, m.becomes, 1)
		if changed == w.ledger.rule.Script.Source {
			t.Fatalf("%v: %q is not in the script", m.of, m.is)
		}
		w.ledger.rule.Script = script.Make(changed)
		rdb.ScriptLoad(ctx, clocked(t, changed).Source)
		rdb.ScriptLoad(ctx, clocked(t, script.Return().Source).Source)
		if _, err := w.explore(); err == nil {
			t.Errorf("%v: %q in place of %q is not found out", m.of, m.becomes, m.is)
		}
	}
	t.Logf("proved: the scripts: %d mutants of %[1]d were found out", len(mutants))
}
