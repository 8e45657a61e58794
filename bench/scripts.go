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
)

const (
	pipelined     = 16 // decisions that the harness asks for at once
	turnPipelines = 16 // pipelines in an actor's turn
)

// actor is a script under load: the calls that the harness sends for it.
type actor struct {
	name string
	goal Goal

	// commands, one for each client, are sent in turn. A nil slice leaves
	// it to command.
	commands [][]byte
	command  func(i int) []byte
	together int // decisions in a command, a divisor of pipelined; 0 is 1
	next     int // decision

	good     func(any) error // checks a reply; may be nil
	before   func() error    // before each round, not timed; may be nil
	finished func() error    // checks what was counted; may be nil
}

// pipeline returns the next calls.
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

// scripts is how many scripts take so many decisions.
func (a *actor) scripts(decisions int) int { return decisions / max(a.together, 1) }

// lab is a server under the harness's control.
type lab struct {
	wire     *wire
	rdb      *redis.Client // for questions that are not measured
	recorder recorder
	recorded *redis.Client // whose commands the recorder hears
	names    int
}

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

// record has decide decide twice about each client and returns the script that
// it sent the second time, when the server knows it. State stays behind.
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
			return nil, fmt.Errorf("a decision sent %d scripts; the harness takes it for one", len(sent))
		}
		scripts = append(scripts, sent[0])
	}
	return scripts, nil
}

func client(i int) string { return "ip:198.51." + strconv.Itoa(i/250) + "." + strconv.Itoa(i%250) }

// sashCalls are the scripts of a limiter of sash, as it sends them.
type sashCalls struct {
	*lab
	limits   []core.Limit
	scripts  [][]string
	encoded  [][]byte
	observer *core.Limiter // of the same counts, through another client
}

func (l *lab) sash(clients int, limits ...core.Limit) (*sashCalls, error) {
	l.names++
	name := "bench" + strconv.Itoa(l.names)
	limiter := func(rdb *redis.Client) (*core.Limiter, error) {
		return core.New(core.Config{Name: name, Store: redisstore.New(rdb), Limits: limits, OnStoreError: core.FailClosed, Timeout: 10 * time.Second})
	}
	recorded, err := limiter(l.recorded)
	if err != nil {
		return nil, err
	}
	c := &sashCalls{lab: l, limits: limits}
	c.scripts, err = l.record(clients, func(client string) error {
		return admitted(recorded.Allow(context.Background(), client))
	})
	if err != nil {
		return nil, err
	}
	for _, s := range c.scripts {
		c.encoded = append(c.encoded, encode(s...))
	}
	if c.observer, err = limiter(l.rdb); err != nil {
		return nil, err
	}
	return c, c.empty()
}

func admitted(d core.Decision) error {
	if d.Err != nil {
		return d.Err
	}
	if !d.Allowed {
		return errRefused
	}
	return nil
}

// together returns commands that each decide n clients' requests by one script,
// as sash sends what waits.
func (c *sashCalls) together(n int) ([][]byte, error) {
	var commands [][]byte
	for some := range slices.Chunk(c.scripts, n) {
		var keys, args []string
		for i, s := range some {
			k, err := keysOf(s)
			if err != nil {
				return nil, err
			}
			a := s[3+len(k):]
			if i > 0 { // the same limits, and a cost of 1: see decide.lua
				a = nil
			}
			keys, args = append(keys, k...), append(args, a...)
		}
		command := append(append(some[0][:2:2], strconv.Itoa(len(keys))), keys...)
		commands = append(commands, encode(append(command, args...)...))
	}
	return commands, nil
}

// actor sends the calls, so many in a script.
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

// empty forgets what was counted.
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

// fill lets every client come so often: the first really, and the others get a
// copy of its keys.
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

// counted asks the library what it has counted for all clients together.
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
			units-- // Peek answers what would remain after the request
		} else {
			allAdmitted = false
		}
	}
	return units, allRefused, allAdmitted, nil
}

// fresh is admitted traffic of which nothing expires: of prefilled counts,
// which begin anew when they would reach the limit.
func (l *lab) fresh(name string, clients, prefilled, together int, goal Goal, limits ...core.Limit) (*actor, error) {
	c, err := l.sash(clients, limits...)
	if err != nil {
		return nil, err
	}
	if err := c.fill(prefilled); err != nil {
		return nil, err
	}
	a, err := c.actor(name, goal, together)
	if err != nil {
		return nil, err
	}
	since := 0 // of a.next, when the counts were prefilled
	room := slices.MinFunc(limits, func(a, b core.Limit) int { return int(a.Requests - b.Requests) }).Requests - int64(prefilled)
	a.before = func() error {
		if int64((a.next-since+turnPipelines*pipelined)/clients+1) < room {
			return nil
		}
		since = a.next
		return errors.Join(c.empty(), c.fill(prefilled))
	}
	a.finished = func() error {
		units, _, allAdmitted, err := c.counted()
		if err != nil {
			return err
		}
		if want := int64(prefilled*clients + a.next - since); units != want || !allAdmitted {
			return fmt.Errorf("%d units are counted, not %d", units, want)
		}
		return nil
	}
	return a, nil
}

// refused is traffic of clients that have used up their limit.
func (l *lab) refused(name string, clients, together int, goal Goal, limit core.Limit) (*actor, error) {
	c, err := l.sash(clients, limit)
	if err != nil {
		return nil, err
	}
	if err := c.fill(int(limit.Requests)); err != nil {
		return nil, err
	}
	a, err := c.actor(name, goal, together)
	if err != nil {
		return nil, err
	}
	a.finished = func() error {
		units, allRefused, _, err := c.counted()
		if err != nil {
			return err
		}
		if want := limit.Requests * int64(clients); units != want || !allRefused {
			return fmt.Errorf("%d units are counted, not %d, or some client is admitted", units, want)
		}
		return nil
	}
	return a, nil
}

// redisRate is the script of redis_rate, as it sends it, admitting: the unit.
func (l *lab) redisRate() (*actor, error) {
	return l.gcra("redis_rate GCRA, admitted", "", unlimited, firstIs(1))
}

// redisRateRefused is the same for clients that have used up their limit.
func (l *lab) redisRateRefused() (*actor, error) {
	return l.gcra("redis_rate GCRA, refused", "refused:", 1, firstIs(0))
}

func (l *lab) gcra(name, prefix string, requests int, good func(any) error) (*actor, error) {
	limiter := redisrate.NewLimiter(l.recorded)
	limit := redisrate.Limit{Rate: requests, Burst: requests, Period: time.Hour}
	scripts, err := l.record(1000, func(client string) error {
		_, err := limiter.Allow(context.Background(), prefix+client, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	a := &actor{name: name, good: good}
	for _, s := range scripts {
		a.commands = append(a.commands, encode(s...))
	}
	return a, nil
}

// firstIs wants an array that begins with n: 1 is admitted, 0 refused.
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

// load makes a script known to the server.
func (l *lab) load(source string) (sha string, err error) {
	reply, err := l.wire.do("SCRIPT", "LOAD", source)
	if err != nil {
		return "", err
	}
	sha, _ = reply.(string)
	return sha, nil
}

// sortedSet is a log in a sorted set, of so many prefilled entries.
func (l *lab) sortedSet(clients, prefilled, requests int) (*actor, error) {
	sha, err := l.load(sortedSetSource)
	if err != nil {
		return nil, err
	}
	l.names++
	a := &actor{name: fmt.Sprintf("sorted set, %d entries", prefilled), good: firstIs(1)}
	for i := range clients {
		key := fmt.Sprintf("set%d:{%s}", l.names, client(i))
		a.commands = append(a.commands, encode("EVALSHA", sha, "2", key, key+":n", strconv.FormatInt(time.Hour.Microseconds(), 10), strconv.Itoa(requests)))
	}
	return a, l.run(a, prefilled*clients)
}

// run has an actor take a number of decisions, untimed.
func (l *lab) run(a *actor, decisions int) error {
	for range decisions / pipelined {
		if err := l.wire.pipeline(a.pipeline(), a.scripts(pipelined), a.good); err != nil {
			return err
		}
	}
	return nil
}

// referencePath is where the reference script lies, seen from this module.
const referencePath = "../core/redisstore/testdata/reference.lua"

func checkScripts(c Config) error {
	if _, err := os.Stat(referencePath); err != nil {
		return fmt.Errorf("run this in the directory bench: %w", err)
	}
	return checkRedis(c)
}

// reference is the plain script that the shipped one is checked against. It
// reads the whole log for each decision, so it begins anew now and then.
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
	a := &actor{name: fmt.Sprintf("reference.lua, %d entries", prefilled), good: firstIs(1)}
	a.command = func(i int) []byte {
		return encode("EVALSHA", sha, "2", key(i), key(i)+":n", "1", "1", strconv.FormatInt(time.Hour.Microseconds(), 10), strconv.Itoa(unlimited), strconv.FormatInt(time.Now().UnixMicro(), 10))
	}
	since := 0 // of a.next, when the logs were empty
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

// one is the script that does nothing.
func (l *lab) one() (*actor, error) {
	sha, err := l.load("return 1")
	return &actor{name: "return 1", commands: [][]byte{encode("EVALSHA", sha, "0")}}, err
}

// race lets actors take turns, in another order each round, and returns the
// server's microseconds per decision, for each actor one of each round. Who comes
// after a script that makes much garbage pays for a part of it, since the
// scripts of a server share one collector.
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

// turn sends an actor's share and returns the server's microseconds per decision.
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

// cost returns the server's microseconds in the scripts that f runs, which must
// be so many.
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
