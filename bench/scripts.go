package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"time"

	redisrate "github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

const (
	pipelined     = 16 // decisions in a pipeline
	turnPipelines = 16 // pipelines in an actor's turn
)

// actor is a script under load, with the commands that the harness sends for it.
type actor struct {
	name string
	goal Goal

	// commands holds one command for each client, or, if together is not 1, one for
	// each group of clients. The commands are sent in turn. If commands is nil, the
	// function command returns the command of decision i.
	commands [][]byte
	command  func(i int) []byte
	together int // decisions in a command, a divisor of pipelined; 0 means 1
	next     int // number of the next decision

	checkReply  func(any) error // may be nil
	before      func() error    // is called before each turn, not timed; may be nil
	checkCounts func() error    // is called after the last turn; may be nil
}

// pipeline returns the commands of the next pipeline.
func (a *actor) pipeline() []byte {
	var b []byte
	for range a.scripts(pipelined) {
		if a.commands != nil {
			b = append(b, a.commands[a.scripts(a.next)%len(a.commands)]...)
		} else {
			b = append(b, a.command(a.next)...)
		}
		a.next += max(a.together, 1)
	}
	return b
}

// scripts returns the number of scripts for a number of decisions.
func (a *actor) scripts(decisions int) int { return decisions / max(a.together, 1) }

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

// sashCalls holds the commands that a limiter of sash sends, one for each client.
type sashCalls struct {
	*lab
	scripts  [][]string    // words of each command
	encoded  [][]byte      // each command in the protocol of Redis
	observer *core.Limiter // a limiter with the same counts that is not recorded
}

// redisLimiter returns a limiter of sash that counts in rdb. It waits long for
// Redis, since a stall of a busy machine is no result.
func redisLimiter(name string, rdb *redis.Client, limits ...core.Limit) (*core.Limiter, error) {
	return core.New(core.Config{
		Name:         name,
		Store:        redisstore.New(rdb),
		Limits:       limits,
		OnStoreError: core.FailClosed,
		Timeout:      10 * time.Second,
	})
}

// sash records the commands of a limiter of sash. All counts are empty afterwards.
func (l *lab) sash(clients int, limits ...core.Limit) (*sashCalls, error) {
	l.names++
	name := "bench" + strconv.Itoa(l.names)
	recorded, err := redisLimiter(name, l.recorded, limits...)
	if err != nil {
		return nil, err
	}
	c := &sashCalls{lab: l}
	c.scripts, err = l.record(clients, func(client string) error {
		return admitted(recorded.Allow(context.Background(), client))
	})
	if err != nil {
		return nil, err
	}
	for _, s := range c.scripts {
		c.encoded = append(c.encoded, encode(s...))
	}
	if c.observer, err = redisLimiter(name, l.rdb, limits...); err != nil {
		return nil, err
	}
	return c, c.empty()
}

// admitted returns an error unless d admits the request.
func admitted(d core.Decision) error {
	if d.Err != nil {
		return d.Err
	}
	if !d.Allowed {
		return errRefused
	}
	return nil
}

// together returns commands with one script for the requests of n clients each.
// sash sends such scripts for requests that wait together.
func (c *sashCalls) together(n int) ([][]byte, error) {
	var commands [][]byte
	for batch := range slices.Chunk(c.scripts, n) {
		var keys, args []string
		for i, s := range batch {
			k, err := keysOf(s)
			if err != nil {
				return nil, err
			}
			keys = append(keys, k...)
			if i == 0 { // decide.lua.tmpl takes the same limits, and a cost of 1, for the others
				args = s[3+len(k):]
			}
		}
		command := append(append(batch[0][:2:2], strconv.Itoa(len(keys))), keys...)
		commands = append(commands, encode(append(command, args...)...))
	}
	return commands, nil
}

// actor returns an actor of the commands. If together is not 1, each script decides
// the requests of this number of clients.
func (c *sashCalls) actor(name string, goal Goal, together int) (*actor, error) {
	a := &actor{name: name, goal: goal, commands: c.encoded, together: together}
	if together == 1 {
		return a, nil
	}
	if len(c.scripts)%together != 0 {
		return nil, fmt.Errorf("%s: %d clients do not fit scripts for %d", name, len(c.scripts), together)
	}
	a.name += fmt.Sprintf(", %d in a script", together)
	var err error
	a.commands, err = c.together(together)
	return a, err
}

// empty deletes the counts of all clients.
func (c *sashCalls) empty() error {
	var b []byte
	for _, s := range c.scripts {
		keys, err := keysOf(s)
		if err != nil {
			return err
		}
		b = append(b, encode(append([]string{"DEL"}, keys...)...)...)
	}
	return c.wire.pipeline(b, len(c.scripts), nil)
}

// fill counts a number of requests for each client. It sends the requests of the
// first client, and copies this client's keys for the others.
func (c *sashCalls) fill(requests int) error {
	for sent := 0; sent < requests; {
		n := min(512, requests-sent)
		var b []byte
		for range n {
			b = append(b, c.encoded[0]...)
		}
		if err := c.wire.pipeline(b, n, nil); err != nil {
			return err
		}
		sent += n
	}
	from, err := keysOf(c.scripts[0])
	if err != nil {
		return err
	}
	for _, s := range c.scripts[1:] {
		to, err := keysOf(s)
		if err != nil {
			return err
		}
		for i := range to {
			if copied, err := c.wire.do("COPY", from[i], to[i], "REPLACE"); err != nil || copied != int64(1) {
				return fmt.Errorf("COPY of %q: %v, %w", from[i], copied, err)
			}
		}
	}
	return nil
}

// counted returns how many units the library has counted for all clients together,
// and whether it refuses, or admits, the next request of every client.
func (c *sashCalls) counted() (units int64, allRefused, allAdmitted bool, err error) {
	allRefused, allAdmitted = true, true
	for i := range c.scripts {
		d := c.observer.Peek(context.Background(), client(i))
		if d.Err != nil {
			return 0, false, false, d.Err
		}
		units += d.Limit.Requests - d.Remaining
		if d.Allowed {
			allRefused = false
			units-- // Remaining is what would remain after the request
		} else {
			allAdmitted = false
		}
	}
	return units, allRefused, allAdmitted, nil
}

// traffic describes the clients and requests of an actor of sash.
type traffic struct {
	name      string
	clients   int
	prefilled int // requests of each client before the first turn
	together  int // decisions in a script
	goal      Goal
	limits    []core.Limit
}

// prefill returns the commands and the actor of traffic, with prefilled counts.
func (l *lab) prefill(t traffic) (*sashCalls, *actor, error) {
	c, err := l.sash(t.clients, t.limits...)
	if err != nil {
		return nil, nil, err
	}
	if err := c.fill(t.prefilled); err != nil {
		return nil, nil, err
	}
	a, err := c.actor(t.name, t.goal, t.together)
	return c, a, err
}

// fresh returns an actor of traffic that is admitted, and of which nothing expires.
// Before the counts reach a limit, the actor resets them to the prefilled ones.
func (l *lab) fresh(t traffic) (*actor, error) {
	c, a, err := l.prefill(t)
	if err != nil {
		return nil, err
	}
	since := 0 // value of a.next when the counts were prefilled
	tightest := slices.MinFunc(t.limits, func(a, b core.Limit) int { return int(a.Requests - b.Requests) })
	room := tightest.Requests - int64(t.prefilled)
	a.before = func() error {
		if int64((a.next-since+turnPipelines*pipelined)/t.clients+1) < room {
			return nil
		}
		since = a.next
		return errors.Join(c.empty(), c.fill(t.prefilled))
	}
	a.checkCounts = func() error {
		units, _, allAdmitted, err := c.counted()
		if err != nil {
			return err
		}
		if want := int64(t.prefilled*t.clients + a.next - since); units != want || !allAdmitted {
			return fmt.Errorf("%d units are counted, not %d, or some client is refused", units, want)
		}
		return nil
	}
	return a, nil
}

// refused returns an actor of clients that have used up the limit of t, which has
// no other limit.
func (l *lab) refused(t traffic) (*actor, error) {
	limit := t.limits[0]
	t.prefilled = int(limit.Requests)
	c, a, err := l.prefill(t)
	if err != nil {
		return nil, err
	}
	a.checkCounts = func() error {
		units, allRefused, _, err := c.counted()
		if err != nil {
			return err
		}
		if want := limit.Requests * int64(t.clients); units != want || !allRefused {
			return fmt.Errorf("%d units are counted, not %d, or some client is admitted", units, want)
		}
		return nil
	}
	return a, nil
}

// redisRate returns the actor of redis_rate with clients that are admitted. Its
// script is the unit of all others.
func (l *lab) redisRate() (*actor, error) {
	return l.gcra("redis_rate GCRA, admitted", "", unlimited, firstIs(1))
}

// redisRateRefused returns the actor of redis_rate with clients that have used up
// their limit.
func (l *lab) redisRateRefused() (*actor, error) {
	return l.gcra("redis_rate GCRA, refused", "refused:", 1, firstIs(0))
}

// gcra returns an actor of redis_rate with a limit of requests an hour. prefix
// keeps its keys apart from the keys of other actors.
func (l *lab) gcra(name, prefix string, requests int, checkReply func(any) error) (*actor, error) {
	limiter := redisrate.NewLimiter(l.recorded)
	limit := redisrate.Limit{Rate: requests, Burst: requests, Period: time.Hour}
	scripts, err := l.record(1000, func(client string) error {
		_, err := limiter.Allow(context.Background(), prefix+client, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	a := &actor{name: name, checkReply: checkReply}
	for _, s := range scripts {
		a.commands = append(a.commands, encode(s...))
	}
	return a, nil
}

// firstIs returns a check that a reply is an array that begins with n. The scripts
// reply 1 to an admitted request and 0 to a refused one.
func firstIs(n int64) func(reply any) error {
	return func(reply any) error {
		if all, ok := reply.([]any); !ok || len(all) == 0 || all[0] != n {
			return fmt.Errorf("the reply %v does not begin with %d", reply, n)
		}
		return nil
	}
}

//go:embed sortedset.lua
var sortedSetSource string

// load loads a script into the server and returns its hash.
func (l *lab) load(source string) (sha string, err error) {
	reply, err := l.wire.do("SCRIPT", "LOAD", source)
	if err != nil {
		return "", err
	}
	sha, _ = reply.(string)
	return sha, nil
}

// sortedSet returns an actor of a log in a sorted set. Each client has prefilled
// entries at first.
func (l *lab) sortedSet(clients, prefilled, requests int) (*actor, error) {
	sha, err := l.load(sortedSetSource)
	if err != nil {
		return nil, err
	}
	l.names++
	a := &actor{name: fmt.Sprintf("sorted set, %d entries", prefilled), checkReply: firstIs(1)}
	window := strconv.FormatInt(time.Hour.Microseconds(), 10)
	for i := range clients {
		key := fmt.Sprintf("set%d:{%s}", l.names, client(i))
		a.commands = append(a.commands, encode("EVALSHA", sha, "2", key, key+":n", window, strconv.Itoa(requests)))
	}
	return a, l.run(a, prefilled*clients)
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

// referencePath is the path of the reference script, from the directory bench.
const referencePath = "../core/redisstore/testdata/reference.lua"

// checkScripts returns an error if the reference script is not found or there is no
// redis-server.
func checkScripts(c Config) error {
	if _, err := os.Stat(referencePath); err != nil {
		return fmt.Errorf("run this in the directory bench: %w", err)
	}
	return checkRedis(c)
}

// reference returns an actor of the plain script against which the shipped script
// is checked. The plain script reads the whole log for each decision, so the actor
// empties its logs, and fills them again, after they have grown by half.
func (l *lab) reference(clients, prefilled int) (*actor, error) {
	source, err := os.ReadFile(referencePath)
	if err != nil {
		return nil, err
	}
	sha, err := l.load(string(source))
	if err != nil {
		return nil, err
	}
	key := func(i int) string { return "reference:{" + client(i%clients) + "}" }
	a := &actor{name: fmt.Sprintf("reference.lua, %d entries", prefilled), checkReply: firstIs(1)}
	window := strconv.FormatInt(time.Hour.Microseconds(), 10)
	a.command = func(i int) []byte {
		now := strconv.FormatInt(time.Now().UnixMicro(), 10)
		return encode("EVALSHA", sha, "2", key(i), key(i)+":n", "1", "1", window, strconv.Itoa(unlimited), now)
	}
	since := 0 // value of a.next when the logs were empty
	a.before = func() error {
		if since > 0 && a.next-since < 3*prefilled*clients/2 {
			return nil
		}
		var b []byte
		for i := range clients {
			b = append(b, encode("DEL", key(i))...)
		}
		since = a.next
		return errors.Join(l.wire.pipeline(b, clients, nil), l.run(a, prefilled*clients))
	}
	return a, l.run(a, pipelined)
}

// one returns an actor of a script that does nothing.
func (l *lab) one() (*actor, error) {
	sha, err := l.load("return 1")
	return &actor{name: "return 1", commands: [][]byte{encode("EVALSHA", sha, "0")}}, err
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
