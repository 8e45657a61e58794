// Package attack_test attacks one site on servers of all five frameworks, over sockets.
//
// An attack is a line of a table: what is sent, and what must hold. Each attack meets fresh servers, which count in
// memory or in a Redis, and where the routers do not differ, all five must answer alike. After each attack every
// server must still answer, and no line of its log may be forged.
package attack_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// attack is one line of a table. Shots are sent in their order, and then run does what a table cannot say.
type attack struct {
	name   string
	shots  []shot
	run    func(*target)
	direct bool // the servers trust no proxy
	outage bool // what the store would have counted is served uncounted
}

// report is what came of an attack.
type report struct {
	mu       sync.Mutex
	checks   int
	problems []string
	seen     []string // what the other frameworks must have seen too
}

// check counts one promise. If ok is false, the text says what was broken.
func (r *report) check(ok bool, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checks++
	if !ok {
		r.problems = append(r.problems, fmt.Sprintf(format, args...))
	}
}

// saw notes what the servers of the other frameworks must have answered too.
func (r *report) saw(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, fmt.Sprintf(format, args...))
}

// patience is longer than a busy machine takes.
const patience = 20 * time.Second

// on attacks all frameworks, each with a store that open makes.
func (a attack) on(t *testing.T, open func() core.Store, timeout time.Duration) (targets []*target) {
	var wait sync.WaitGroup
	for _, f := range frameworks {
		x := &target{attack: a, name: f.name}
		targets = append(targets, x)
		x.start(t, f.serve, open(), timeout)
		wait.Go(x.suffer)
	}
	wait.Wait()
	return targets
}

// suffer is the whole attack, and the question whether the server is still well.
func (x *target) suffer() {
	for _, s := range x.shots {
		x.fire(s)
	}
	if x.run != nil {
		x.run(x)
	}
	x.fire(shot{send: "GET /health", want: "200"})
	x.server.Close()
	for line := range strings.Lines(x.log.String()) {
		var entry struct{ Level, Msg string }
		err := json.Unmarshal([]byte(line), &entry)
		own := strings.HasPrefix(entry.Msg, "sash: ") || strings.HasPrefix(entry.Msg, "http: ")
		x.check(err == nil && own && !strings.Contains(entry.Msg, "panic"), "a line of the log: %.300q", line)
	}
}

// judge makes errors of what went wrong, and returns the number of checks.
func judge(t *testing.T, targets []*target) (checks int) {
	for _, x := range targets {
		checks += x.checks
		for _, p := range x.problems[:min(10, len(x.problems))] {
			t.Errorf("%s: %s", x.name, p)
		}
		if want := targets[0].seen; !slices.Equal(x.seen, want) {
			i := 0
			for i < min(len(x.seen), len(want)) && x.seen[i] == want[i] {
				i++
			}
			t.Errorf("%s saw %q, and %s %q", x.name, x.seen[i:min(i+1, len(x.seen))], targets[0].name,
				want[i:min(i+1, len(want))])
		}
	}
	return checks
}

func openMemory() core.Store { return memstore.New() }

// openRedis returns a store of keys of its own.
func openRedis(t *testing.T, url string) core.Store {
	t.Helper()
	store, err := redisstore.Open(url, redisstore.WithPrefix(rand.Text()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// TestAttack runs the attacks on both stores, and those by a Redis that lies.
func TestAttack(t *testing.T) {
	url := redistest.Start(t).URL()
	attacks, checks := 0, 0
	try := func(a attack, store string, open func(t *testing.T) core.Store, timeout time.Duration) {
		attacks++
		t.Run(store+"/"+a.name, func(t *testing.T) {
			checks += judge(t, a.on(t, func() core.Store { return open(t) }, timeout))
		})
	}
	for _, a := range slices.Concat(paths, bursts, texts, names) {
		try(a, "memory", func(*testing.T) core.Store { return openMemory() }, patience)
		try(a, "redis", func(t *testing.T) core.Store { return openRedis(t, url) }, patience)
	}
	for _, l := range lies {
		try(attack{name: l.name, run: lied, outage: true}, "hostile redis",
			func(t *testing.T) core.Store { return openRedis(t, l.serve(t)) }, 100*time.Millisecond)
	}
	var memory runtime.MemStats
	if runtime.ReadMemStats(&memory); memory.Sys > 4<<30 {
		t.Errorf("%d MiB were taken, and no attack needs as many", memory.Sys>>20)
	}
	t.Logf("proved: %d attacks on %d servers, %d checks, all held", attacks, len(frameworks), checks)
}

// TestWeakServers: servers that believe a header of everybody are found out.
func TestWeakServers(t *testing.T) {
	found := 0
	for _, a := range names {
		a.direct = false // now the servers trust the attacker's address
		for _, x := range a.on(t, openMemory, patience) {
			if found += len(x.problems); len(x.problems) == 0 {
				t.Errorf("%s: %s believes every header, and that is not found out", a.name, x.name)
			}
		}
	}
	t.Logf("proved: servers that believe every header were found out by %d checks", found)
}
