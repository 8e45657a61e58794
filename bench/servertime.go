package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// cast makes the actors of a race of scripts; the first is the unit.
type cast struct {
	name   string
	actors []func(*lab) (*actor, error)
}

func share(ratio float64) Goal { return Goal{Ratio: new(ratio)} }

func three(l core.Limit) []core.Limit { return []core.Limit{l, l.Named("b"), l.Named("c")} }

// clientsOf is how many clients there are with logs of that limit: 1,000, but of
// large ones so few that the server's memory holds them.
func clientsOf(requests int64) int { return int(min(1000, 10_000_000/requests)) }

const (
	together        = 16  // decisions in a script, as sash sends under load
	clientsTogether = 992 // a multiple of that
)

func casts() []cast {
	counter := core.PerHour(unlimited).Using(core.SlidingCounter)
	gcra := (*lab).redisRate
	fresh := func(name string, prefilled int, goal float64, limits ...core.Limit) func(*lab) (*actor, error) {
		return func(l *lab) (*actor, error) {
			return l.fresh(name, clientsOf(limits[0].Requests), prefilled, 1, share(goal), limits...)
		}
	}
	freshCounter := func(name string, goal float64, limits ...core.Limit) func(*lab) (*actor, error) {
		return func(l *lab) (*actor, error) { return l.fresh(name, 1000, 1, 1, share(goal), limits...) }
	}
	freshTogether := func(name string, prefilled int, limits ...core.Limit) func(*lab) (*actor, error) {
		return func(l *lab) (*actor, error) {
			return l.fresh(name, clientsTogether, prefilled, together, Goal{}, limits...)
		}
	}
	refused := func(name string, goal float64, limit core.Limit) func(*lab) (*actor, error) {
		return func(l *lab) (*actor, error) {
			return l.refused(name, clientsOf(limit.Requests), 1, share(goal), limit)
		}
	}
	refusedTogether := func(name string, limit core.Limit) func(*lab) (*actor, error) {
		return func(l *lab) (*actor, error) {
			return l.refused(name, clientsTogether, together, Goal{}, limit)
		}
	}
	return []cast{
		{"nothing expires", []func(*lab) (*actor, error){
			gcra,
			(*lab).one,
			fresh("log, limit 10", 1, 0.65, core.PerHour(10)),
			fresh("log, limit 1000", 300, 0.65, core.PerHour(1000)),
			fresh("log, limit 100000", 50_000, 0.65, core.PerHour(100_000)),
			fresh("3 logs, limit 1000", 300, 1.3, three(core.PerHour(1000))...),
			freshCounter("counter", 0.5, counter),
			freshCounter("3 counters", 1, three(counter)...),
			freshTogether("log, limit 1000", 300, core.PerHour(1000)),
			freshTogether("3 logs, limit 1000", 300, three(core.PerHour(1000))...),
			freshTogether("counter", 1, counter),
			freshTogether("3 counters", 1, three(counter)...),
			func(l *lab) (*actor, error) {
				return l.sortedSet(1000, 300, unlimited)
			},
			func(l *lab) (*actor, error) { return l.reference(1000, 10) },
		}},
		{"refused", []func(*lab) (*actor, error){
			gcra,
			(*lab).redisRateRefused,
			refused("log, limit 10", 0.65, core.PerHour(10)),
			refused("log, limit 1000", 0.65, core.PerHour(1000)),
			refused("log, limit 100000", 0.65, core.PerHour(100_000)),
			refused("counter", 0.5, core.PerHour(10).Using(core.SlidingCounter)),
			refusedTogether("log, limit 1000", core.PerHour(1000)),
			refusedTogether("counter", core.PerHour(10).Using(core.SlidingCounter)),
		}},
	}
}

// run races the actors of a cast on a server of their own.
func (c cast) run(rounds int) ([]Row, error) {
	var rows []Row
	err := withServers(single, func(server *redistest.Server) error {
		l, err := newLab(server.Addr())
		if err != nil {
			return err
		}
		defer l.close()
		actors := make([]*actor, len(c.actors))
		for i, make := range c.actors {
			if actors[i], err = make(l); err != nil {
				return err
			}
		}
		micros, err := l.race(actors, rounds)
		if err != nil {
			return err
		}
		for i, a := range actors {
			row := Row{What: "script, " + c.name, Name: a.name, Unit: "us", Values: micros[i], Ratios: ratios(micros[i], micros[0]), LowerIsBetter: true, Goal: a.goal}
			if a.finished != nil {
				if err := a.finished(); err != nil {
					return fmt.Errorf("%s: %w", a.name, err)
				}
			}
			rows = append(rows, row)
		}
		return nil
	})
	return rows, err
}

func runScripts(c Config) ([]Row, error) {
	var rows []Row
	for _, cast := range casts() {
		c.progress("scripts, %s", cast.name)
		more, err := again(time.Now, func() ([]Row, error) { return cast.run(20 * c.Rounds) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", cast.name, err)
		}
		rows = append(rows, more...)
	}
	for _, s := range steadies() {
		c.progress("scripts, one expires per request: %s", s.name)
		more, err := s.run(20 * c.Rounds)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		rows = append(rows, more...)
	}
	return append(rows, flatness(rows)...), nil
}

// flatness compares, in each situation, the cheapest limit of one log with the
// dearest, in units of redis_rate's script.
func flatness(rows []Row) []Row {
	var flat []Row
	for _, what := range []string{"script, nothing expires", "script, refused", "script, one expires per request"} {
		var medians []float64
		for _, r := range rows {
			if r.What == what && slices.Contains([]string{"log, limit 10", "log, limit 1000", "log, limit 100000"}, r.Name) {
				medians = append(medians, median(r.Ratios))
			}
		}
		if len(medians) > 1 {
			flat = append(flat, Row{What: "script, log of limit 10 to 100000", Name: what[len("script, "):], Unit: "times, dearest of cheapest", Values: []float64{slices.Max(medians) / slices.Min(medians)}, Goal: Goal{Value: new(1.3)}})
		}
	}
	return flat
}

// usage returns what all keys of the server take, by its own account.
func (l *lab) usage() (float64, error) {
	ctx := context.Background()
	keys, err := l.rdb.Keys(ctx, "*").Result()
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for _, key := range keys {
		bytes, err := l.rdb.MemoryUsage(ctx, key, 0).Result()
		if err != nil {
			return 0, err
		}
		total += bytes
	}
	return float64(total), nil
}

// runBytes asks MEMORY USAGE, key and all.
func runBytes(c Config) ([]Row, error) {
	c.progress("bytes per log entry in Redis")
	var rows []Row
	err := withServers(single, func(server *redistest.Server) error {
		l, err := newLab(server.Addr())
		if err != nil {
			return err
		}
		defer l.close()
		add := func(name string, entries int, goal Goal) error {
			bytes, err := l.usage()
			rows = append(rows, Row{What: "MEMORY USAGE per entry, key and all", Name: fmt.Sprintf("%s, %d", name, entries), Unit: "B", Values: []float64{bytes / float64(entries)}, Goal: goal})
			return err
		}
		for _, entries := range []int{100, 1000, 10_000} {
			if err := l.rdb.FlushAll(context.Background()).Err(); err != nil {
				return err
			}
			log, err := l.sash(1, core.PerHour(100_000))
			if err != nil {
				return err
			}
			if err := log.fill(entries); err != nil {
				return err
			}
			goal := Goal{}
			if entries >= 1000 { // of a short log it is the key that weighs
				goal.Value = new(12.0)
			}
			if err := add("log", entries, goal); err != nil {
				return err
			}
		}
		for _, entries := range []int{100, 1000, 10_000} {
			if err := l.rdb.FlushAll(context.Background()).Err(); err != nil {
				return err
			}
			set, err := l.sortedSet(1, 0, unlimited)
			if err != nil {
				return err
			}
			for range entries {
				if err := l.wire.pipeline(set.commands[0], 1, set.good); err != nil {
					return err
				}
			}
			if err := add("sorted set", entries, Goal{}); err != nil {
				return err
			}
		}
		return nil
	})
	return rows, err
}

const massExpiry = 100_000

// runExpiry fills logs with 100,000 entries, waits until these have expired, and
// sends one more request: how long does the server work on that? Of half of the
// logs everything has expired, of the others all but one entry.
func runExpiry(c Config) ([]Row, error) {
	c.progress("mass expiry in Redis")
	const logs = 4
	values := map[string][]float64{}
	err := withServers(single, func(server *redistest.Server) error {
		l, err := newLab(server.Addr())
		if err != nil {
			return err
		}
		defer l.close()
		const window = 8 * time.Second // longer than it takes to fill them
		start := time.Now()
		log, err := l.sash(logs, core.Per(core.MaxLogRequests, window))
		if err != nil {
			return err
		}
		if err := log.fill(massExpiry); err != nil {
			return err
		}
		filled := time.Now()
		if filled.Sub(start) > window/2 {
			return fmt.Errorf("the machine is too slow: %v to fill a log", filled.Sub(start))
		}
		time.Sleep(window / 4)
		for _, command := range log.encoded[:logs/2] {
			if err := l.wire.pipeline(command, 1, nil); err != nil {
				return err
			}
		}
		time.Sleep(time.Until(filled.Add(window + 100*time.Millisecond)))
		for i, command := range log.encoded {
			_, before, err := l.wire.scriptStats()
			if err != nil {
				return err
			}
			if err := l.wire.pipeline(command, 1, nil); err != nil {
				return err
			}
			_, after, err := l.wire.scriptStats()
			if err != nil {
				return err
			}
			left, name := int64(1), "all of 100000"
			if i < logs/2 {
				left, name = 2, "all but the newest of 100001"
			}
			d := log.observer.Peek(context.Background(), client(i))
			if units := d.Limit.Requests - d.Remaining - 1; d.Err != nil || units != left {
				return fmt.Errorf("%d entries are left of %s, %w", units, name, d.Err)
			}
			values[name] = append(values[name], float64(after-before))
		}
		return nil
	})
	var rows []Row
	for _, name := range []string{"all of 100000", "all but the newest of 100001"} {
		if len(values[name]) > 0 {
			rows = append(rows, Row{What: "mass expiry, blocks Redis for", Name: name, Unit: "us", Values: []float64{slices.Max(values[name])}, Goal: Goal{Value: new(2000.0)}})
		}
	}
	return rows, err
}

// plainCalls returns the scripts that a sash limiter sends for clients, for a
// caller that has no library.
func plainCalls(addr string, clients int, limit core.Limit) ([][]any, error) {
	l, err := newLab(addr)
	if err != nil {
		return nil, err
	}
	defer l.close()
	limiter, err := core.New(core.Config{Name: "plain" + strconv.Itoa(int(limit.Algorithm)), Store: redisstore.New(l.recorded), Limits: []core.Limit{limit}, OnStoreError: core.FailClosed, Timeout: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	scripts, err := l.record(clients, func(client string) error { return admitted(limiter.Allow(context.Background(), client)) })
	if err != nil {
		return nil, err
	}
	calls := make([][]any, len(scripts))
	for i, s := range scripts {
		for _, word := range s {
			calls[i] = append(calls[i], word)
		}
	}
	return calls, nil
}
