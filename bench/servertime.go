package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sashlimit/sash/core"
)

// newActor makes an actor on the server of a lab.
type newActor func(*lab) (*actor, error)

// cast makes the actors of a race of scripts. The first actor is the unit.
type cast struct {
	name   string
	actors []newActor
}

// share returns the goal of a script: its time in units.
func share(ratio float64) Goal { return Goal{Ratio: new(ratio)} }

// three returns three limits with the numbers of l.
func three(l core.Limit) []core.Limit { return []core.Limit{l, l.Named("b"), l.Named("c")} }

// only returns l as the only limit.
func only(l core.Limit) []core.Limit { return []core.Limit{l} }

// clientsFor returns the number of clients with logs of a limit. It is 1,000, and
// less for large logs, so that the server's memory holds them.
func clientsFor(requests int64) int { return int(min(1000, 10_000_000/requests)) }

const (
	together        = 16  // decisions in a script that sash sends under load
	clientsTogether = 992 // a multiple of together
)

// casts returns the casts of all races of scripts.
func casts() []cast {
	fresh := []newActor{(*lab).redisRate, (*lab).one}
	for _, t := range freshTraffic() {
		fresh = append(fresh, func(l *lab) (*actor, error) { return l.fresh(t) })
	}
	fresh = append(fresh,
		func(l *lab) (*actor, error) { return l.sortedSet(1000, 300, unlimited) },
		func(l *lab) (*actor, error) { return l.reference(1000, 10) },
	)
	refused := []newActor{(*lab).redisRate, (*lab).redisRateRefused}
	for _, t := range refusedTraffic() {
		refused = append(refused, func(l *lab) (*actor, error) { return l.refused(t) })
	}
	return []cast{{"nothing expires", fresh}, {"refused", refused}}
}

// freshTraffic returns the traffic of which nothing expires.
func freshTraffic() []traffic {
	ten, thousand, large := core.PerHour(10), core.PerHour(1000), core.PerHour(100_000)
	counter := core.PerHour(unlimited).Using(core.SlidingCounter)
	return []traffic{ // name, clients, prefilled, together, goal, limits
		{"log, limit 10", clientsFor(10), 1, 1, share(0.65), only(ten)},
		{"log, limit 1000", clientsFor(1000), 300, 1, share(0.65), only(thousand)},
		{"log, limit 100000", clientsFor(100_000), 50_000, 1, share(0.65), only(large)},
		{"3 logs, limit 1000", clientsFor(1000), 300, 1, share(1.3), three(thousand)},
		{"counter", 1000, 1, 1, share(0.5), only(counter)},
		{"3 counters", 1000, 1, 1, share(1), three(counter)},
		{"log, limit 1000", clientsTogether, 300, together, Goal{}, only(thousand)},
		{"3 logs, limit 1000", clientsTogether, 300, together, Goal{}, three(thousand)},
		{"counter", clientsTogether, 1, together, Goal{}, only(counter)},
		{"3 counters", clientsTogether, 1, together, Goal{}, three(counter)},
	}
}

// refusedTraffic returns the traffic that is refused.
func refusedTraffic() []traffic {
	ten, thousand, large := core.PerHour(10), core.PerHour(1000), core.PerHour(100_000)
	counter := ten.Using(core.SlidingCounter)
	return []traffic{ // name, clients, prefilled (by refused), together, goal, limits
		{"log, limit 10", clientsFor(10), 0, 1, share(0.65), only(ten)},
		{"log, limit 1000", clientsFor(1000), 0, 1, share(0.65), only(thousand)},
		{"log, limit 100000", clientsFor(100_000), 0, 1, share(0.65), only(large)},
		{"counter", clientsFor(10), 0, 1, share(0.5), only(counter)},
		{"log, limit 1000", clientsTogether, 0, together, Goal{}, only(thousand)},
		{"counter", clientsTogether, 0, together, Goal{}, only(counter)},
	}
}

// run races the actors of a cast on a server of their own.
func (c cast) run(rounds int) (rows []Row, err error) {
	err = withLab(func(l *lab) error {
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
			rows = append(rows, Row{
				What: "script, " + c.name, Name: a.name, Unit: "us",
				Values: micros[i], Ratios: ratios(micros[i], micros[0]), LowerIsBetter: true,
				Goal: a.goal,
			})
			if a.checkCounts == nil {
				continue
			}
			if err := a.checkCounts(); err != nil {
				return fmt.Errorf("%s: %w", a.name, err)
			}
		}
		return nil
	})
	return rows, err
}

// runScripts races the casts and measures the logs in steady state.
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
	logs := []string{"log, limit 10", "log, limit 1000", "log, limit 100000"}
	var flat []Row
	for _, what := range []string{"script, nothing expires", "script, refused", "script, one expires per request"} {
		var medians []float64
		for _, r := range rows {
			if r.What == what && slices.Contains(logs, r.Name) {
				medians = append(medians, median(r.Ratios))
			}
		}
		if len(medians) > 1 {
			flat = append(flat, Row{
				What:   "script, log of limit 10 to 100000",
				Name:   what[len("script, "):],
				Unit:   "times, dearest of cheapest",
				Values: []float64{slices.Max(medians) / slices.Min(medians)},
				Goal:   Goal{Value: new(1.3)},
			})
		}
	}
	return flat
}

// usage returns the bytes of all keys of the server, as MEMORY USAGE reports them.
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

// runBytes measures the bytes per entry of logs and of sorted sets, with their keys.
func runBytes(c Config) (rows []Row, err error) {
	c.progress("bytes per log entry in Redis")
	err = withLab(func(l *lab) error {
		for _, list := range []struct {
			name string
			fill func(*lab, int) error
			goal Goal
		}{
			{"log", (*lab).fillLog, Goal{Value: new(12.0)}},
			{"sorted set", (*lab).fillSortedSet, Goal{}},
		} {
			for _, entries := range []int{100, 1000, 10_000} {
				goal := list.goal
				if entries < 1000 { // most bytes of a short list are its key's
					goal = Goal{}
				}
				bytes, err := l.bytesPerEntry(list.fill, entries)
				if err != nil {
					return err
				}
				rows = append(rows, Row{
					What: "MEMORY USAGE per entry, key and all", Name: fmt.Sprintf("%s, %d", list.name, entries),
					Unit: "B", Values: []float64{bytes}, Goal: goal,
				})
			}
		}
		return nil
	})
	return rows, err
}

// bytesPerEntry empties the server, fills one list and returns its bytes per entry.
func (l *lab) bytesPerEntry(fill func(*lab, int) error, entries int) (float64, error) {
	if err := l.rdb.FlushAll(context.Background()).Err(); err != nil {
		return 0, err
	}
	if err := fill(l, entries); err != nil {
		return 0, err
	}
	bytes, err := l.usage()
	return bytes / float64(entries), err
}

// fillLog adds entries to the log of one client of sash.
func (l *lab) fillLog(entries int) error {
	log, err := l.sash(1, core.PerHour(100_000))
	if err != nil {
		return err
	}
	return log.fill(entries)
}

// fillSortedSet adds entries to the sorted set of one client.
func (l *lab) fillSortedSet(entries int) error {
	set, err := l.sortedSet(1, 0, unlimited)
	if err != nil {
		return err
	}
	for range entries {
		if err := l.wire.pipeline(set.commands[0], 1, set.checkReply); err != nil {
			return err
		}
	}
	return nil
}

const (
	massExpiry   = 100_000         // entries of a log
	expiryLogs   = 4               // logs
	expiryWindow = 8 * time.Second // longer than the time to fill the logs
)

// runExpiry fills logs with 100,000 entries, waits until these have expired, and
// measures how long one more request to each log blocks the server. In half of the
// logs all entries have expired, and in the others all but the newest.
func runExpiry(c Config) ([]Row, error) {
	c.progress("mass expiry in Redis")
	const all, allButOne = "all of 100000", "all but the newest of 100001"
	valuesByName := map[string][]float64{}
	err := withLab(func(l *lab) error {
		log, err := l.expiredLogs()
		if err != nil {
			return err
		}
		for i := range log.encoded {
			name, left := all, int64(1)
			if i < expiryLogs/2 {
				name, left = allButOne, 2
			}
			micros, err := l.expire(log, i, left)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			valuesByName[name] = append(valuesByName[name], float64(micros))
		}
		return nil
	})
	var rows []Row
	for _, name := range []string{all, allButOne} {
		if values := valuesByName[name]; len(values) > 0 {
			rows = append(rows, Row{
				What: "mass expiry, blocks Redis for", Name: name, Unit: "us",
				Values: []float64{slices.Max(values)}, Goal: Goal{Value: new(2000.0)},
			})
		}
	}
	return rows, err
}

// expiredLogs fills the logs and waits until the entries have expired. The first
// half of the logs gets one more entry, which has not.
func (l *lab) expiredLogs() (*sashCalls, error) {
	start := time.Now()
	log, err := l.sash(expiryLogs, core.Per(core.MaxLogRequests, expiryWindow))
	if err != nil {
		return nil, err
	}
	if err := log.fill(massExpiry); err != nil {
		return nil, err
	}
	filled := time.Now()
	if filled.Sub(start) > expiryWindow/2 {
		return nil, fmt.Errorf("the machine is too slow: %v to fill a log", filled.Sub(start))
	}
	time.Sleep(expiryWindow / 4)
	for _, command := range log.encoded[:expiryLogs/2] {
		if err := l.wire.pipeline(command, 1, nil); err != nil {
			return nil, err
		}
	}
	time.Sleep(time.Until(filled.Add(expiryWindow + 100*time.Millisecond)))
	return log, nil
}

// expire sends one more request of client i and returns the server's microseconds
// for it. The number of entries after the request must be left.
func (l *lab) expire(log *sashCalls, i int, left int64) (micros int64, err error) {
	micros, err = l.cost(1, func() error { return l.wire.pipeline(log.encoded[i], 1, nil) })
	if err != nil {
		return 0, err
	}
	entries, err := log.entries(i)
	if err == nil && entries != left {
		err = fmt.Errorf("%d entries are left, not %d", entries, left)
	}
	return micros, err
}

// plainCalls returns the commands of a sash limiter for a number of clients, for a
// caller that sends them without the library.
func plainCalls(addr string, clients int, limit core.Limit) ([][]any, error) {
	l, err := newLab(addr)
	if err != nil {
		return nil, err
	}
	defer l.close()
	scripts, err := l.recordSash(clients, "plain"+limit.Algorithm.String(), limit)
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
