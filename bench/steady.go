package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sashlimit/sash/core"
)

// steady is a log in steady state: requests come at an even pace, and one entry of
// the log expires for each request.
//
// A clock ticks, and at every tick 16 clients send one request each; the clients
// take turns, so that all send one request in the same time. The window is a
// multiple of this time minus half a tick. So when a client sends a request, its
// oldest entry has expired half a tick before, and the next entry will expire half
// a tick before the client's next request.
//
// The unit, redis_rate's script, runs between the ticks, after every second one. A
// script that ran less often would find the processor's caches without its data.
type steady struct {
	name     string
	clients  int // a multiple of 16
	entries  int // entries of a log in steady state
	together int // decisions in a script
	goal     Goal
	limits   []core.Limit // measure replaces their windows
}

// steadies returns the logs that are measured in steady state.
func steadies() []steady {
	thousand := core.PerHour(1000)
	return []steady{ // name, clients, entries, together, goal, limits
		{"log, limit 10", 992, 6, 1, share(0.85), only(core.PerHour(10))},
		{"log, limit 1000", 96, 600, 1, share(0.85), only(thousand)},
		{"log, limit 100000", pipelined, 50_000, 1, share(0.85), only(core.PerHour(100_000))},
		{"3 logs, limit 1000", 96, 600, 1, share(1.9), three(thousand)},
		{"log, limit 1000", 96, 600, together, Goal{}, only(thousand)},
		{"3 logs, limit 1000", 96, 600, together, Goal{}, three(thousand)},
	}
}

const (
	ticksPerRound = 128
	ticksPerUnit  = 2 // ticks for each pipeline of the unit
)

// run measures the log on a server of its own.
func (s steady) run(rounds int) (rows []Row, err error) {
	err = withLab(func(l *lab) error {
		rows, err = s.measure(l, rounds)
		return err
	})
	return rows, err
}

// measure brings the log into steady state and returns two rows, one of the unit
// and one of the log, with a value for each round.
func (s steady) measure(l *lab, rounds int) ([]Row, error) {
	calls, p, err := s.settle(l)
	if err != nil {
		return nil, err
	}
	before, err := calls.entries(0)
	if err != nil {
		return nil, err
	}
	first := p.ticks
	var logTimes, unitTimes, entries []float64
	for range rounds {
		logMicros, unitMicros, err := p.round()
		if err != nil {
			return nil, err
		}
		logTimes, unitTimes = append(logTimes, logMicros), append(unitTimes, unitMicros)
		n, err := calls.entries(0)
		if err != nil {
			return nil, fmt.Errorf("%s: at a steady pace: %w", s.name, err)
		}
		entries = append(entries, float64(n))
	}
	sent := float64(p.ticks-first) * pipelined / float64(s.clients)
	expired := (float64(before) + sent - entries[len(entries)-1]) / sent
	row := func(a *actor, note string, times []float64) Row {
		return Row{
			What: "script, one expires per request", Name: a.name, Unit: "us", Note: note, Goal: a.goal,
			Values: times, Ratios: ratios(times, unitTimes), LowerIsBetter: true,
		}
	}
	return []Row{
		row(p.unit, "beside "+p.log.name, unitTimes),
		row(p.log, s.note(median(entries), expired), logTimes),
	}, nil
}

// settle returns the commands of the log, and a pacer that has sent them until the log
// was in steady state.
func (s steady) settle(l *lab) (*sashCalls, *pacer, error) {
	unit, err := l.redisRate()
	if err != nil {
		return nil, nil, err
	}
	tick, err := s.tick(l, unit)
	if err != nil {
		return nil, nil, err
	}
	limits := s.fitLimits(tick)
	calls, err := l.sash(s.clients, limits...)
	if err != nil {
		return nil, nil, err
	}
	log, err := calls.actor(s.name, s.goal, s.together)
	if err != nil {
		return nil, nil, err
	}
	p := &pacer{lab: l, log: log, unit: unit, tick: tick, start: time.Now()}
	return calls, p, p.steps(int(limits[0].Window/tick)*11/10 + ticksPerUnit)
}

// note describes the state of a log, and says so if the state was not steady.
// expired is the number of entries that expired for each request.
func (s steady) note(entries, expired float64) string {
	note := fmt.Sprintf("%.0f entries, %.2f expire per request", entries, expired)
	if expired < 0.8 || expired > 1.25 || entries < 0.9*float64(s.entries) {
		note += ": NOT STEADY"
	}
	return note
}

// fitLimits returns the limits with windows for s.entries entries at one request of
// each client in turn.
func (s steady) fitLimits(tick time.Duration) []core.Limit {
	around := time.Duration(s.clients/pipelined) * tick // time between two requests of a client
	limits := slices.Clone(s.limits)
	for i := range limits {
		limits[i].Window = (time.Duration(s.entries)*around - tick/2).Truncate(time.Microsecond)
	}
	return limits
}

// entries returns the length of the log of client i. It returns an error if the client's
// next request would be refused.
func (c *sashCalls) entries(i int) (int64, error) {
	d := c.observer.Peek(context.Background(), client(i))
	return d.Limit.Requests - d.Remaining - 1, admitted(d)
}

// pacer sends the requests of a log, and of the unit, at the ticks of a clock.
type pacer struct {
	lab       *lab
	log, unit *actor
	tick      time.Duration
	start     time.Time
	ticks     int // ticks so far

	// unitMicros is the server's time in the unit's scripts of this round, and
	// unitCalls their number.
	unitMicros, unitCalls int64
}

// step waits for the next tick and sends its requests. After a late step, the next
// ones follow without a wait until the delay is made up for.
func (p *pacer) step() error {
	at := p.start.Add(time.Duration(p.ticks) * p.tick)
	p.ticks++
	time.Sleep(time.Until(at))
	if err := p.lab.run(p.log, pipelined); err != nil {
		return err
	}
	if p.ticks%ticksPerUnit > 0 {
		return nil
	}
	time.Sleep(time.Until(at.Add(p.tick / 2)))
	micros, err := p.lab.cost(pipelined, func() error { return p.lab.run(p.unit, pipelined) })
	p.unitMicros, p.unitCalls = p.unitMicros+micros, p.unitCalls+pipelined
	return err
}

// steps does n steps.
func (p *pacer) steps(n int) error {
	for range n {
		if err := p.step(); err != nil {
			return err
		}
	}
	return nil
}

// round does the steps of a round and returns the server's microseconds per
// decision of the log and of the unit.
func (p *pacer) round() (logMicros, unitMicros float64, err error) {
	const decisions = ticksPerRound * pipelined
	p.unitMicros, p.unitCalls = 0, 0
	scripts := int64(p.log.scripts(decisions)) + ticksPerRound/ticksPerUnit*pipelined
	all, err := p.lab.cost(scripts, func() error { return p.steps(ticksPerRound) })
	if err != nil {
		return 0, 0, err
	}
	return float64(all-p.unitMicros) / decisions, float64(p.unitMicros) / float64(p.unitCalls), nil
}

// tick returns the time between two ticks, from a trial in which nothing expires: at
// least four times the time of a pipeline, so that a stall can be made up for, and
// at least twice the time of the unit's pipeline, which has half a tick.
func (s steady) tick(l *lab, unit *actor) (time.Duration, error) {
	limits := slices.Clone(s.limits)
	for i := range limits {
		limits[i].Requests = core.MaxLogRequests
		limits[i].Name = "trial" + strconv.Itoa(i)
	}
	trial, err := l.fresh(traffic{name: "trial", clients: 96, prefilled: 1, together: s.together, limits: limits})
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
