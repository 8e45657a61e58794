package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// sizes are the limits of an hour under which the algorithms of sash are compared.
var sizes = []int64{1000, 100_000, 10_000_000}

// algorithms returns the algorithms of sash that hold a limit of n, the log first where it does.
func algorithms(n int64) (all []core.Algorithm) {
	for _, a := range core.Algorithms() {
		if a != core.SlidingLog || n <= core.MaxLogRequests {
			all = append(all, a)
		}
	}
	return all
}

// runAlgorithms compares the algorithms of sash: what a client takes that asks for all of its limit all the time, and
// what such a client is admitted.
func runAlgorithms(c Config) (rows []Row, err error) {
	for _, n := range sizes {
		c.progress("algorithms in memory, limit %d", n)
		rows = append(rows, runHours(c, n)...)
	}
	c.progress("algorithms in Redis, bytes")
	more, err := runRedisBytes()
	rows = append(rows, more...)
	for _, a := range core.Algorithms() {
		if err != nil {
			return rows, err
		}
		c.progress("algorithms in Redis, script of %v", a)
		more, err = fullUse(a).run(20 * c.Rounds)
		rows = append(rows, more...)
	}
	return append(rows, coarseness(rows)...), err
}

// fullUse returns a limit in steady state that holds a window of requests: of a CoarseLog in all of its slots.
func fullUse(a core.Algorithm) steady {
	return steady{a.String() + ", limit 1000", 96, 600, 1, Goal{}, only(core.PerHour(1000).Using(a))}
}

// coarseness compares the script of a coarse log with the log's, in units of redis_rate's.
func coarseness(rows []Row) []Row {
	shares := map[string]float64{}
	for _, r := range rows {
		shares[r.Name] = median(r.Ratios)
	}
	coarse := fullUse(core.CoarseLog).name
	return []Row{{
		What: "script, beside the log's", Name: coarse, Unit: "times the log's", Goal: Goal{Value: new(1.15)},
		Values: []float64{shares[coarse] / shares[fullUse(core.SlidingLog).name]},
	}}
}

// hour is a client in memory whose requests come at the rate of its limit of an hour, by a clock of its own.
type hour struct {
	limiter         *core.Limiter
	store           *memstore.Store
	now             time.Time
	step            time.Duration // between two requests
	cost            int64
	first           int64 // bytes of the store after the first request
	admitted, asked int
}

// newHour returns a client that has come for three hours.
func newHour(a core.Algorithm, n int64) *hour {
	requests := min(n, 100_000) // in an hour
	h := &hour{now: time.Unix(1_800_000_000, 0), step: time.Hour / time.Duration(requests), cost: n / requests}
	h.store = memstore.New(memstore.WithClock(func() time.Time { return h.now }), memstore.WithMaxBytes(1<<30))
	h.limiter = core.Must(core.New(core.Config{
		Store: h.store, Limits: []core.Limit{core.PerHour(n).Using(a)}, Observer: core.Silent,
	}))
	h.ask(1)
	h.first = h.store.Bytes()
	h.ask(3 * int(requests))
	h.admitted, h.asked = 0, 0
	return h
}

// ask sends n requests.
func (h *hour) ask(n int) {
	ctx := context.Background()
	for range n {
		h.now = h.now.Add(h.step)
		if h.limiter.AllowN(ctx, "user:42", h.cost).Allowed {
			h.admitted++
		}
	}
	h.asked += n
}

// bytes returns the bytes of the client: what it takes more than after its first request, and what a client of one
// request takes where there are many.
func (h *hour) bytes() float64 {
	const others = 1_000_000
	before := h.store.Bytes()
	for i := range others {
		h.limiter.Allow(context.Background(), address(i))
	}
	return float64(before-h.first) + float64(h.store.Bytes()-before)/others
}

// runHours lets a client of each algorithm take turns under a limit of n an hour.
func runHours(c Config, n int64) []Row {
	const turn = 305_000 // for whole rounds of 61 slots, of which a coarse log admits 60
	var all []*hour
	for _, a := range algorithms(n) {
		all = append(all, newHour(a, n))
	}
	times := make([][]float64, len(all))
	for range c.Rounds {
		for i, h := range all {
			start := time.Now()
			h.ask(turn)
			times[i] = append(times[i], float64(time.Since(start))/turn)
		}
	}
	ns, bytes := make([]Row, len(all)), make([]Row, len(all))
	for i, a := range algorithms(n) {
		share := 100 * float64(all[i].admitted) / float64(all[i].asked)
		ns[i] = Row{
			What: fmt.Sprintf("a decision in memory, limit %d, in full use", n), Name: a.String(), Unit: "ns",
			Values: times[i], Note: fmt.Sprintf("%.2f %% admitted", share),
		}
		bytes[i] = Row{
			What: fmt.Sprintf("bytes in memory, limit %d, in full use", n), Name: a.String(), Unit: "B",
			Values: []float64{all[i].bytes()},
		}
		if a == core.CoarseLog {
			bytes[i].Goal = Goal{Value: new(600.0)}
		}
	}
	return append(ns, bytes...)
}

// runRedisBytes measures the memory of Redis for each client that has used all of its limit.
func runRedisBytes() (rows []Row, err error) {
	err = withLab(func(l *lab) error {
		for _, n := range sizes {
			for _, a := range algorithms(n) {
				bytes, err := l.bytesPerClient(n, a)
				if err != nil {
					return err
				}
				rows = append(rows, Row{
					What: fmt.Sprintf("bytes in Redis, limit %d, in full use", n), Name: a.String(), Unit: "B",
					Values: []float64{bytes},
				})
			}
		}
		return nil
	})
	return rows, err
}

// bytesPerClient uses all of a limit for one client, in each slot of a coarse log, copies its key for others, and
// returns the bytes for each of them. A coarse log has a window of 6 s, so that this does not take an hour.
func (l *lab) bytesPerClient(n int64, a core.Algorithm) (float64, error) {
	ctx, limit, clients := context.Background(), core.PerHour(n).Using(a), 10_000
	switch a {
	case core.SlidingLog:
		clients = clientsFor(n)
	case core.CoarseLog:
		limit.Window = 6 * time.Second
	}
	if err := l.rdb.FlushAll(ctx).Err(); err != nil {
		return 0, err
	}
	c, err := l.sash(clients, limit)
	if err != nil {
		return 0, err
	}
	switch a {
	case core.SlidingLog:
		err = c.first(int(n))
	case core.CoarseLog:
		start := time.Now()
		for slot := range time.Duration(60) {
			time.Sleep(time.Until(start.Add(slot * limit.Window / 60)))
			err = errors.Join(err, admitted(c.observer.AllowN(ctx, client(0), n/60)))
		}
	default:
		err = admitted(c.observer.AllowN(ctx, client(0), n))
	}
	if err != nil {
		return 0, err
	}
	before, err := l.usedMemory()
	if err != nil {
		return 0, err
	}
	if err := c.copyFirst(); err != nil {
		return 0, err
	}
	after, err := l.usedMemory()
	return (after - before) / float64(clients-1), err
}

// usedMemory returns the bytes that the server has allocated.
func (l *lab) usedMemory() (float64, error) {
	info, err := l.rdb.InfoMap(context.Background(), "memory").Result()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(info["Memory"]["used_memory"], 64)
}
