package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	redisrate "github.com/go-redis/redis_rate/v10"
)

const (
	pipelined     = 16 // decisions in a pipeline
	turnPipelines = 16 // pipelines in an actor's turn

	labTimeout = 10 * time.Second // of limiters whose decisions are not measured
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
	return &actor{name: name, commands: encodeAll(scripts), checkReply: checkReply}, nil
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
