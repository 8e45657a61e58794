package bench

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/internal/redistest"
)

// lab is a server that the harness controls.
type lab struct {
	wire     *wire
	rdb      *redis.Client // for commands that are not measured
	recorder recorder
	recorded *redis.Client // the recorder records its commands
	names    int           // number of names given so far, so that each name is used once
}

// newLab returns the lab of the server at addr.
func newLab(addr string) (*lab, error) {
	w, err := dial(addr)
	if err != nil {
		return nil, err
	}
	l := &lab{wire: w, rdb: redis.NewClient(&redis.Options{Addr: addr})}
	l.recorded = redis.NewClient(&redis.Options{Addr: addr, Dialer: l.recorder.dial})
	return l, nil
}

func (l *lab) close() {
	l.wire.close()
	_ = l.rdb.Close()
	_ = l.recorded.Close()
}

// withLab calls f with the lab of a server that it starts for f.
func withLab(f func(*lab) error) error {
	return withServers(single, func(server *redistest.Server) error {
		l, err := newLab(server.Addr())
		if err != nil {
			return err
		}
		defer l.close()
		return f(l)
	})
}

// record calls decide twice for each client and returns the command of the second
// call, for which the server knew the script already. The server keeps the counts
// of these decisions.
func (l *lab) record(clients int, decide func(client string) error) (scripts [][]string, err error) {
	for i := range clients {
		for range 2 {
			if _, err := l.recorder.scripts(); err != nil {
				return nil, err
			}
			if err := decide(client(i)); err != nil {
				return nil, err
			}
		}
		sent, err := l.recorder.scripts()
		if err != nil {
			return nil, err
		}
		if len(sent) != 1 {
			return nil, fmt.Errorf("a decision sent %d scripts; the harness expects one", len(sent))
		}
		scripts = append(scripts, sent[0])
	}
	return scripts, nil
}

// client returns the name of client i.
func client(i int) string { return "ip:198.51." + strconv.Itoa(i/250) + "." + strconv.Itoa(i%250) }

// load loads a script into the server and returns its hash.
func (l *lab) load(source string) (sha string, err error) {
	reply, err := l.wire.do("SCRIPT", "LOAD", source)
	if err != nil {
		return "", err
	}
	sha, _ = reply.(string)
	return sha, nil
}

// run sends the commands of an actor for a number of decisions, which is rounded
// down to whole pipelines.
func (l *lab) run(a *actor, decisions int) error {
	for range decisions / pipelined {
		if err := l.wire.pipeline(a.pipeline(), a.scripts(pipelined), a.checkReply); err != nil {
			return err
		}
	}
	return nil
}

// race lets actors take turns and returns the server's microseconds per decision,
// for each actor one value a round. The order changes each round: the scripts of a
// server share one garbage collector, so an actor after one that makes much garbage
// pays for a part of it.
func (l *lab) race(actors []*actor, rounds int) ([][]float64, error) {
	micros := make([][]float64, len(actors))
	order := rand.New(rand.NewPCG(1, 2))
	for range rounds {
		for _, i := range order.Perm(len(actors)) {
			m, err := l.turn(actors[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", actors[i].name, err)
			}
			micros[i] = append(micros[i], m)
		}
	}
	return micros, nil
}

// turn sends the pipelines of an actor's turn and returns the server's microseconds
// per decision.
func (l *lab) turn(a *actor) (float64, error) {
	if a.before != nil {
		if err := a.before(); err != nil {
			return 0, err
		}
	}
	const decisions = turnPipelines * pipelined
	micros, err := l.cost(int64(a.scripts(decisions)), func() error { return l.run(a, decisions) })
	return float64(micros) / decisions, err
}

// cost returns the server's microseconds in the scripts that f runs. The number of
// these scripts must be calls.
func (l *lab) cost(calls int64, f func() error) (micros int64, err error) {
	ran, before, err := l.wire.scriptStats()
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	later, after, err := l.wire.scriptStats()
	if err == nil && later-ran != calls {
		err = fmt.Errorf("the server ran %d scripts, not %d", later-ran, calls)
	}
	return after - before, err
}
