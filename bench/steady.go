package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/redistest"
)

// steady is a log in steady state: requests come at an even pace, and the window
// is so long that for each that comes one expires.
//
// The clients take turns, 16 of them at every tick of a clock, so that all send
// one request in the same time. The window is a whole number of these times
// less half a tick: when a request comes, the one that it replaces expired
// half a tick ago, and the next will half a tick before the client is back. The
// unit, redis_rate's script, comes between the ticks, after every second one: a
// script that comes seldom finds caches that have forgotten it.
type steady struct {
	name     string
	clients  int // a multiple of 16
	entries  int // that a log has
	together int // decisions in a script
	goal     Goal
	limits   []core.Limit // whose windows are made to fit
}

func steadies() []steady {
	thousand := []core.Limit{core.PerHour(1000)}
	return []steady{
		{"log, limit 10", 992, 6, 1, share(0.85), []core.Limit{core.PerHour(10)}},
		{"log, limit 1000", 96, 600, 1, share(0.85), thousand},
		{"log, limit 100000", pipelined, 50_000, 1, share(0.85), []core.Limit{core.PerHour(100_000)}},
		{"3 logs, limit 1000", 96, 600, 1, share(1.9), three(thousand[0])},
		{"log, limit 1000", 96, 600, together, Goal{}, thousand},
		{"3 logs, limit 1000", 96, 600, together, Goal{}, three(thousand[0])},
	}
}

const (
	ticksPerRound = 128
	ticksPerUnit  = 2 // a pipeline of the unit for so many ticks
)

func (s steady) run(rounds int) (rows []Row, err error) {
	err = withServers(single, func(server *redistest.Server) error {
		l, err := newLab(server.Addr())
		if err != nil {
			return err
		}
		defer l.close()
		rows, err = s.measure(l, rounds)
		return err
	})
	return rows, err
}

func (s steady) measure(l *lab, rounds int) ([]Row, error) {
	unit, err := l.redisRate()
	if err != nil {
		return nil, err
	}
	tick, err := s.tick(l, unit)
	if err != nil {
		return nil, err
	}
	around := time.Duration(s.clients/pipelined) * tick // until a client is back
	limits := slices.Clone(s.limits)
	for i := range limits {
		limits[i].Window = (time.Duration(s.entries)*around - tick/2).Truncate(time.Microsecond)
	}
	calls, err := l.sash(s.clients, limits...)
	if err != nil {
		return nil, err
	}
	log, err := calls.actor(s.name, s.goal, s.together)
	if err != nil {
		return nil, err
	}
	units := func() (int64, error) {
		d := calls.observer.Peek(context.Background(), client(0))
		return d.Limit.Requests - d.Remaining - 1, admitted(d)
	}

	start, ticks := time.Now(), 0
	var unitMicros, unitCalls int64
	// step waits for the next tick and sends its requests; one that is late
	// is made up for.
	step := func() error {
		at := start.Add(time.Duration(ticks) * tick)
		ticks++
		time.Sleep(time.Until(at))
		if err := l.run(log, pipelined); err != nil {
			return err
		}
		if ticks%ticksPerUnit > 0 {
			return nil
		}
		time.Sleep(time.Until(at.Add(tick / 2)))
		m, err := l.cost(pipelined, func() error { return l.run(unit, pipelined) })
		unitMicros, unitCalls = unitMicros+m, unitCalls+pipelined
		return err
	}
	settled := int(limits[0].Window/tick)*11/10 + ticksPerUnit
	for ticks < settled {
		if err := step(); err != nil {
			return nil, err
		}
	}
	before, err := units()
	if err != nil {
		return nil, err
	}
	first := ticks
	var unitTimes, times, lengths []float64
	for range rounds {
		unitMicros, unitCalls = 0, 0
		const inRound = ticksPerRound * pipelined
		all, err := l.cost(int64(log.scripts(inRound))+ticksPerRound/ticksPerUnit*pipelined, func() error {
			for range ticksPerRound {
				if err := step(); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		unitTimes = append(unitTimes, float64(unitMicros)/float64(unitCalls))
		times = append(times, float64(all-unitMicros)/inRound)
		n, err := units()
		if err != nil {
			return nil, fmt.Errorf("%s: at a steady pace: %w", s.name, err)
		}
		lengths = append(lengths, float64(n))
	}
	sent := float64(ticks-first) * pipelined / float64(s.clients)
	expired := (float64(before) + sent - lengths[len(lengths)-1]) / sent
	note := fmt.Sprintf("%.0f entries, %.2f expire per request", median(lengths), expired)
	if expired < 0.8 || expired > 1.25 || median(lengths) < 0.9*float64(s.entries) {
		note += ": NOT STEADY"
	}
	const what = "script, one expires per request"
	return []Row{
		{What: what, Name: unit.name, Unit: "us", Values: unitTimes, Ratios: ratios(unitTimes, unitTimes), LowerIsBetter: true, Note: "beside " + log.name},
		{What: what, Name: log.name, Unit: "us", Values: times, Ratios: ratios(times, unitTimes), LowerIsBetter: true, Goal: log.goal, Note: note},
	}, nil
}

// tick is four times what a pipeline takes at this machine's speed while nothing
// expires, so that there is time to make up for a stall, or twice what the unit
// takes, which has half a tick.
func (s steady) tick(l *lab, unit *actor) (time.Duration, error) {
	limits := slices.Clone(s.limits)
	for i := range limits {
		limits[i].Requests = core.MaxLogRequests
		limits[i].Name = "trial" + strconv.Itoa(i)
	}
	trial, err := l.fresh("trial", 96, 1, s.together, Goal{}, limits...)
	if err != nil {
		return 0, err
	}
	var logs, units []float64
	for range 300 {
		start := time.Now()
		if err := l.run(trial, pipelined); err != nil {
			return 0, err
		}
		between := time.Now()
		if _, err := l.cost(pipelined, func() error { return l.run(unit, pipelined) }); err != nil {
			return 0, err
		}
		logs = append(logs, float64(between.Sub(start)))
		units = append(units, float64(time.Since(between)))
	}
	return time.Duration(max(4*median(logs), 2*median(units))).Truncate(time.Microsecond), nil
}
