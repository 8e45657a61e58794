package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

var (
	lasts = flag.Duration("for", 2*time.Second, "how long TestLinearizable goes on with each kind of client")
	seed  = flag.Uint64("seed", 0, "of TestLinearizable; 0: a new one")
)

// limit is small, so that some are refused, and lasts longer than the test.
const limit = 6

// asked is what a goroutine has asked for, and the answer. The answer to what is lost is not known.
type asked struct {
	verb  string
	units int64
	at    int64 // of a return: when the units were counted
}

type answer struct {
	lost, allowed bool
	units         int64 // that are left, or that a return has taken back
	at            int64
}

// state holds how many units are counted by the time of their request. Those of lost answers stand at 0.
type state map[int64]int64

func (s state) used() (used int64) {
	for _, n := range s {
		used += n
	}
	return used
}

func (s state) with(at, n int64) state {
	s = maps.Clone(s)
	if s[at] += n; s[at] == 0 {
		delete(s, at)
	}
	return s
}

// step returns the states after a request, by the definition: none if it is not answered so.
func step(s state, q asked, a answer) []any {
	switch q.verb {
	case "reset":
		if a.lost {
			return []any{s, state{}}
		}
		return []any{state{}}
	case "return":
		taken := min(q.units, s[q.at])
		if after := s.with(q.at, -taken); a.lost {
			return []any{s, after}
		} else if a.units == taken || len(s) == 0 && a.units == q.units {
			return []any{after}
		}
		return nil
	}
	admitted := q.verb == "charge" || s.used()+q.units <= limit
	after := s
	if admitted && q.verb != "peek" {
		after = s.with(a.at, q.units)
	}
	left := limit - s.used()
	if admitted {
		left -= q.units
	}
	switch {
	case a.lost:
		return []any{s, after}
	case a.allowed == admitted && a.units == max(0, left):
		return []any{after}
	}
	return nil
}

var model = (&porcupine.NondeterministicModel{
	Init:  func() []any { return []any{state{}} },
	Step:  func(s, q, a any) []any { return step(s.(state), q.(asked), a.(answer)) },
	Equal: func(a, b any) bool { return maps.Equal(a.(state), b.(state)) },
}).ToModel()

// caller asks by one limiter about one client, and keeps what was answered.
type caller struct {
	id      int
	limiter *core.Limiter
	rng     *rand.Rand
	began   time.Time
	held    []*core.Reservation
	seen    []porcupine.Operation
	wrong   error
}

// one asks once. What was answered from memory is left out: another process may have given units back since.
func (c *caller) one(key string) {
	ctx := context.Background()
	q, a := asked{verb: "take", units: 1 + c.rng.Int64N(2)}, answer{}
	call, err := time.Since(c.began), error(nil)
	switch verb := c.rng.IntN(12); {
	case verb == 0:
		q.verb = "reset"
		err = c.limiter.Reset(ctx, key)
	case verb < 4 && len(c.held) > 0:
		r := c.held[0]
		c.held = c.held[1:]
		q = asked{"return", 1, r.Decision.At.UnixMicro()}
		a.units, err = r.Return(ctx, 1)
	default:
		r := core.Request{Key: key, Cost: q.units, Peek: verb == 11, Charge: verb == 10}
		q.verb = map[int]string{10: "charge", 11: "peek"}[verb]
		one := c.limiter.Reserve(ctx, r)
		d := one.Decision
		if d.Source == core.SourceRemembered {
			return
		}
		a, err = answer{allowed: d.Allowed, units: d.Remaining, at: d.At.UnixMicro()}, d.Err
		if err == nil && d.Allowed && !r.Peek {
			c.held = append(c.held, one)
		}
	}
	back := int64(time.Since(c.began))
	switch {
	case err != nil && errors.Is(err, core.ErrUnavailable) && core.StageOf(err) != core.StageReply:
		return // it was never sent
	case err != nil && strings.Contains(err.Error(), "script"): // which has run, and said something that cannot be
		c.wrong = err
	case err != nil:
		a, back = answer{lost: true}, math.MaxInt64
	}
	c.seen = append(c.seen, porcupine.Operation{ClientId: c.id, Input: q, Call: int64(call), Output: a, Return: back})
}

// play has eight goroutines ask about one client by three stores, and returns what they saw.
func play(limiters []*core.Limiter, key string, seed uint64) (seen []porcupine.Operation, wrong error) {
	callers := make([]*caller, 8)
	var group sync.WaitGroup
	began := time.Now()
	for i := range callers {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		callers[i] = &caller{id: i, limiter: limiters[i%len(limiters)], rng: rng, began: began}
		group.Go(func() {
			for range 6 {
				callers[i].one(key)
			}
		})
	}
	group.Wait()
	for _, c := range callers {
		seen, wrong = append(seen, c.seen...), errors.Join(wrong, c.wrong)
	}
	return seen, wrong
}

// clients are the kinds of clients, each with the servers behind it.
func clients(t *testing.T) map[string]func() (redis.UniversalClient, []*redistest.Server) {
	return map[string]func() (redis.UniversalClient, []*redistest.Server){
		"a server": func() (redis.UniversalClient, []*redistest.Server) {
			s := redistest.Start(t)
			return s.Client(t), []*redistest.Server{s}
		},
		"a Cluster": func() (redis.UniversalClient, []*redistest.Server) {
			c := redistest.StartCluster(t, 3, 0)
			return c.Client(t), c.Servers
		},
		"a Ring": func() (redis.UniversalClient, []*redistest.Server) {
			servers := []*redistest.Server{redistest.Start(t), redistest.Start(t)}
			addrs := map[string]string{"a": servers[0].Addr(), "b": servers[1].Addr()}
			ring := redis.NewRing(&redis.RingOptions{Addrs: addrs})
			t.Cleanup(func() { ring.Close() })
			return ring, servers
		},
	}
}

// cut closes all connections of the servers again and again, until it is stopped.
func cut(t *testing.T, servers []*redistest.Server) (stop func()) {
	done := make(chan struct{})
	var group sync.WaitGroup
	for _, s := range servers {
		admin := s.Client(t)
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(20 * time.Millisecond):
					admin.Do(context.Background(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
				}
			}
		})
	}
	return func() { close(done); group.Wait() }
}

// TestLinearizable: all that concurrent callers of three stores are told, by all verbs, while connections are cut, is
// as if one request came after the other. An answer that is wrong is found out.
func TestLinearizable(t *testing.T) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // each outage is worth a line, and here they are many
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	for name, open := range clients(t) {
		rdb, servers := open()
		limiters := make([]*core.Limiter, 3)
		for i := range limiters {
			limiters[i] = core.Must(core.New(core.Config{
				Name: "linear", Store: redisstore.New(rdb), Limits: []core.Limit{core.PerHour(limit)},
				OnStoreError: core.FailClosed, Timeout: time.Second,
			}))
		}
		stop := cut(t, servers)
		var histories, asked, lost, forged int
		for began := time.Now(); time.Since(began) < *lasts; histories++ {
			seen, wrong := play(limiters, fmt.Sprint(name, histories), *seed+uint64(histories))
			if wrong != nil {
				t.Errorf("%s, seed %d, history %d: %v", name, *seed, histories, wrong)
			}
			unknown := 0
			for _, o := range seen {
				if o.Output.(answer).lost {
					unknown++
				}
			}
			asked, lost = asked+len(seen), lost+unknown
			if got := porcupine.CheckOperationsTimeout(model, seen, time.Minute); got != porcupine.Ok {
				t.Errorf("%s, seed %d, history %d: %v:\n%+v", name, *seed, histories, got, seen)
			}
			if unknown == 0 {
				forged += forge(t, seen)
			}
		}
		stop()
		if lost == 0 || forged == 0 {
			t.Errorf("%s: %d answers lost, and %d wrong ones found out: too few to prove anything", name, lost, forged)
		}
		t.Logf("proved: %s: %d histories of 8 callers by 3 stores, %d requests, %d replies lost, all linearizable; "+
			"all %d forged answers found out", name, histories, asked, lost, forged)
	}
}

// forge adds a last answer that is wrong, and returns 1 if it is found out.
func forge(t *testing.T, seen []porcupine.Operation) int {
	last := int64(0)
	for _, o := range seen {
		last = max(last, o.Return)
	}
	for left := range int64(limit + 1) {
		wrong := slices.Clip(seen)
		for i, units := range []int64{left, left + 1} { // both cannot be
			call := last + 1 + 2*int64(i)
			wrong = append(wrong, porcupine.Operation{
				Input: asked{verb: "peek"}, Call: call, Output: answer{allowed: true, units: units}, Return: call + 1,
			})
		}
		if porcupine.CheckOperations(model, wrong) {
			t.Errorf("a forged answer is not found out: %+v", wrong)
		}
	}
	return 1
}
