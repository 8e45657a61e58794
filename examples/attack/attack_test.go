// Package attack_test attacks the five example servers from outside, over sockets, and checks what they promise.
//
// An attack is a line of a table: what is sent, and what must hold. Each attack meets freshly started servers of all
// five frameworks, which count in memory or in a Redis, and all five must answer alike. After each attack every server
// must still answer, its log must be whole, and its process must end well.
//
// The short form is part of the tests. The long form adds the slow attacks, runs all attacks on both stores, and
// prints a table:
//
//	go test -count=1 -timeout 30m -v -run '^TestAttack$' ./examples/attack -args -attack
package attack_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sashlimit/sash/examples/internal/apptest"
	"github.com/sashlimit/sash/internal/redistest"
)

var long = flag.Bool("attack", false, "TestAttack runs all attacks on both stores and prints a table")

func TestMain(m *testing.M) { apptest.Main(m) }

// attack is one line of a table. Either shots are sent in their order, or run does what a table cannot say.
type attack struct {
	name  string
	shots []shot
	run   func(*target)

	direct  bool // the servers trust no proxy
	onRedis bool // the short form runs the attack on Redis too
	slow    bool // only the long form runs the attack

	// hostile starts what the server counts in instead of the stores, and returns its URL.
	hostile func(*testing.T, *target) string
}

// The stores that the servers count in. The last is what an attack starts itself.
const inMemory, inRedis, inHostile = "memory", "redis", "hostile redis"

// battle is one attack on the servers of all frameworks, and what came of it.
type battle struct {
	attack
	store   string
	took    time.Duration
	targets []*target
	differs []string // where a framework answers otherwise than the first
}

// TestAttack runs the attacks. It judges no time, except that an attack must end within the shortest window of the
// examples: a minute.
func TestAttack(t *testing.T) {
	redis := redistest.Start(t)
	var battles []*battle
	for _, a := range slices.Concat(paths, names, keys, bursts, bodies, logs, lies(), outages) {
		for _, store := range storesFor(a) {
			t.Run(store+"/"+a.name, func(t *testing.T) { battles = append(battles, a.fight(t, store, redis)) })
		}
	}
	if *long {
		t.Log("\n" + table(battles))
	}
	checks := 0
	for _, b := range battles {
		for _, x := range b.targets {
			checks += x.checks
		}
	}
	t.Logf("proved: %d attacks on %d servers, %d checks, all held", len(battles), len(apptest.Frameworks), checks)
}

// TestWeakServers: servers that believe a header of everybody are found out.
func TestWeakServers(t *testing.T) {
	redis, found := redistest.Start(t), 0
	for _, a := range names {
		if !a.direct {
			continue
		}
		a.direct = false // now the servers trust the attacker's address
		b := a.once(t, inMemory, redis)
		for _, x := range b.targets {
			if found += len(x.problems); len(x.problems) == 0 {
				t.Errorf("%s: %s believes every header, and that is not found out", a.name, x.Name)
			}
		}
	}
	t.Logf("proved: servers that believe every header were found out by %d checks", found)
}

// storesFor returns the stores that an attack is to be run on.
func storesFor(a attack) []string {
	switch {
	case a.slow && !*long:
		return nil
	case a.hostile != nil:
		return []string{inHostile}
	case a.onRedis || *long:
		return []string{inMemory, inRedis}
	}
	return []string{inMemory}
}

// shortestWindow is how long an attack may take at most, for its requests to stand in one window of every limit.
const shortestWindow = 50 * time.Second

// fight runs the attack. Counts come back after a minute. On a machine too busy for that, which can be told without a
// look at the answers, the attack is repeated.
func (a attack) fight(t *testing.T, store string, redis *redistest.Server) *battle {
	for attempt := 1; ; attempt++ {
		b := a.once(t, store, redis)
		if b.took <= shortestWindow || a.slow || attempt == 5 {
			b.report(t)
			return b
		}
		t.Logf("attempt %d took %v: again", attempt, b.took)
	}
}

// once runs the attack once on fresh servers with empty stores.
func (a attack) once(t *testing.T, store string, redis *redistest.Server) *battle {
	b := &battle{attack: a, store: store}
	if err := redis.Client(t).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for i, name := range a.frameworks() {
		x := &target{attack: a, redis: redis}
		var args []string
		if !a.direct {
			args = append(args, "-trust", "127.0.0.0/8")
		}
		switch store {
		case inRedis:
			// Longer than a busy machine takes: no decision is made without Redis.
			args = append(args, "-redis", fmt.Sprintf("redis://%s/%d", redis.Addr(), i), "-timeout", patience.String())
		case inHostile:
			args = append(args, "-redis", a.hostile(t, x))
		}
		x.Process = apptest.Start(t, name, args...)
		b.targets = append(b.targets, x)
	}
	began := time.Now()
	var wait sync.WaitGroup
	for _, x := range b.targets {
		wait.Go(x.suffer)
	}
	wait.Wait()
	b.took = time.Since(began)
	for _, x := range b.targets {
		x.Stop(t)
		x.checkLog()
		if got, want := x.seen, b.targets[0].seen; !slices.Equal(got, want) {
			b.differs = append(b.differs, x.Name+": "+firstDifference(got, want))
		}
	}
	return b
}

// frameworks are the servers to attack: how a store is asked is the same for all, so the short form lies to
// one of them.
func (a attack) frameworks() []string {
	if a.hostile != nil && !*long {
		return apptest.Frameworks[:1]
	}
	return apptest.Frameworks
}

func firstDifference(got, want []string) string {
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			return fmt.Sprintf("saw %s; %s: %s", g, apptest.Frameworks[0], w)
		}
	}
	return "the same"
}

// report makes errors of what went wrong. What went wrong in several frameworks alike is one error.
func (b *battle) report(t *testing.T) {
	byProblem := map[string][]string{}
	var order []string
	for _, x := range b.targets {
		for _, p := range x.problems {
			if byProblem[p] == nil {
				order = append(order, p)
			}
			if !slices.Contains(byProblem[p], x.Name) {
				byProblem[p] = append(byProblem[p], x.Name)
			}
		}
	}
	const most = 20
	for _, p := range order[:min(most, len(order))] {
		t.Errorf("%s: %s", strings.Join(byProblem[p], ", "), p)
	}
	if len(order) > most {
		t.Errorf("and %d more", len(order)-most)
	}
	for _, d := range b.differs {
		t.Errorf("the frameworks answer differently: %s", d)
	}
}
