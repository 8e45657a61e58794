package bench

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sashlimit/sash/internal/redistest"
)

// HTTPConfig sets how long RunHTTP measures.
type HTTPConfig struct {
	Rounds      int           // in which all servers take turns
	Slice       time.Duration // of a server in each round: whole seconds
	Connections []int         // each of these numbers has turns of its own

	Progress func(string) // is called with the name of the next round; may be nil
}

// Check returns the error with which RunHTTP would end, as far as that is known
// beforehand.
func (c HTTPConfig) Check() error {
	if c.Rounds < 1 || c.Slice < time.Second || c.Slice%time.Second != 0 || len(c.Connections) == 0 {
		return fmt.Errorf("%d rounds of %v with %d numbers of connections: "+
			"at least one round and one number are needed, and whole seconds, since wrk counts in seconds",
			c.Rounds, c.Slice, len(c.Connections))
	}
	for _, n := range c.Connections {
		if n < 1 || n > 1000 {
			return fmt.Errorf("%d connections: from 1 to 1000 are possible", n)
		}
	}
	return errors.Join(checkWrk(), checkRedis(Config{}))
}

// RunHTTP measures HTTP servers with and without limiters by wrk. It returns an error
// if one request is refused or fails, or is not counted by its limiter.
func RunHTTP(c HTTPConfig) (*HTTPTable, error) {
	type arena struct {
		redis string // the server's address
		dir   string
	}
	start := func(tb testing.TB) arena { return arena{redistest.Start(tb).Addr(), tb.TempDir()} }
	var table *HTTPTable
	err := withServers(start, func(a arena) error {
		script, err := writeWrkScript(a.dir)
		if err != nil {
			return err
		}
		table, err = c.race(a.redis, httpRequests, runWrk(script))
		return err
	})
	return table, err
}

// httpRequests is the limit of each client in an hour. None reaches it, and sash finds
// the log of such a limit not too large.
const httpRequests = 100_000

// turn holds the measurements of one turn of a site.
type turn struct {
	volley
	scripts float64 // of Redis, for each request

	server, redis cpuTime // in this turn
}

// webRace is a race of sites, which ask one server of Redis.
type webRace struct {
	sites    []*site
	redis    *wire
	generate generator
	slice    time.Duration
}

// race starts all websites, with a limit of requests an hour for each client, and lets
// them take turns.
func (c HTTPConfig) race(redis string, requests int, generate generator) (*HTTPTable, error) {
	w, err := dial(redis)
	if err != nil {
		return nil, err
	}
	defer w.close()
	r := webRace{redis: w, generate: generate, slice: c.Slice}
	defer func() {
		for _, s := range r.sites {
			s.close()
		}
	}()
	for _, s := range websites() {
		opened, err := openSite(s, requests, Env{Redis: redis})
		if err != nil {
			return nil, err
		}
		r.sites = append(r.sites, opened)
	}
	table, err := newHTTPTable(w, c)
	if err != nil {
		return nil, err
	}
	for round := range c.Rounds {
		for group, connections := range c.Connections {
			if c.Progress != nil {
				c.Progress(fmt.Sprintf("round %d of %d, connections: %d", round+1, c.Rounds, connections))
			}
			for i, s := range r.sites {
				t, err := again(time.Now, func() (turn, error) { return r.turn(s, connections) })
				if err != nil {
					return nil, fmt.Errorf("%s, connections: %d: %w", s.name, connections, err)
				}
				table.groups[group].turns[i] = append(table.groups[group].turns[i], t)
			}
		}
	}
	return table, nil
}

// turn drives one site, and checks that its limiter has counted each request.
func (r webRace) turn(s *site, connections int) (turn, error) {
	if _, err := r.redis.do("FLUSHALL"); err != nil {
		return turn{}, err
	}
	// The census creates the counts of all clients, and tells what they are.
	before, err := s.census()
	if err != nil {
		return turn{}, err
	}
	if _, err := r.redis.do("CONFIG", "RESETSTAT"); err != nil {
		return turn{}, err
	}
	t := turn{}
	err = r.timed(s, &t, func() (err error) {
		t.volley, err = r.generate(s.url, connections, r.slice)
		return err
	})
	if err == nil {
		err = t.check()
	}
	if err != nil {
		return turn{}, err
	}
	scripts, _, err := r.redis.scriptStats()
	if err != nil {
		return turn{}, err
	}
	commands, _, err := r.redis.commandStats(func(name string) bool { return name == s.command })
	if err != nil {
		return turn{}, err
	}
	after, err := s.census()
	if err != nil {
		return turn{}, err
	}
	counted := after - before - remoteClients // without the second census
	t.scripts = float64(scripts) / float64(t.Requests)
	return t, s.check(t.Requests, int64(connections), counted, scripts, commands)
}

// timed does some work, and notes the processor time that the site and Redis take for it.
func (r webRace) timed(s *site, t *turn, work func() error) error {
	server, err := s.cpu()
	if err != nil {
		return err
	}
	redis, err := r.redis.cpu()
	if err != nil {
		return err
	}
	if err = work(); err != nil {
		return err
	}
	if t.server, err = s.cpu(); err != nil {
		return err
	}
	t.server = t.server.less(server)
	t.redis, err = r.redis.cpu()
	t.redis = t.redis.less(redis)
	return err
}

// check returns an error unless the requests of a turn were counted, and Redis was
// asked about them, or not asked at all. When wrk ends it leaves a request on each
// connection, which may be counted or not: at most left of them are.
func (s website) check(requests, left, counted, scripts, commands int64) error {
	least, most := requests, requests+left
	if s.counts == ahead {
		least = 1
	}
	switch {
	case s.command == "" && scripts > 0:
		return fmt.Errorf("%d scripts in Redis for a server that should not ask it", scripts)
	case s.command != "" && (commands < least || commands > most):
		return fmt.Errorf("%d requests: Redis ran %d times %s, want %d to %d",
			requests, commands, s.command, least, most)
	case s.counts != nothing && counted < requests, s.counts == exactly && counted > most:
		return fmt.Errorf("%d requests, and at most %d more: %d were counted", requests, left, counted)
	}
	return nil
}
