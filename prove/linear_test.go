package main

import (
	"context"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"flag"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
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

// limit is small, so that some are refused, and lasts longer than the test. A unit comes back to a bucket in ten
// minutes.
const limit = 6

// asked is what a process has asked for, and the answer. The answer to what is lost is not known.
type asked struct {
	Verb   string
	Units  int64
	At     int64 // of a return: when the units were counted
	Bucket bool  // or a log
}

type answer struct {
	Lost, Allowed bool
	Units         int64 // that are left, or that a return has taken back
	At            int64
}

// operation is what a process asked, when, and what it was told when.
type operation struct {
	Asked        asked
	Answer       answer
	Call, Return int64 // nanoseconds since 1970
}

// state holds the units that are counted: the time of their request and their number, in order, each in nine bytes.
// Those of lost answers stand at 0.
type state string

func (s state) used() (used int64) {
	for i := 8; i < len(s); i += 9 {
		used += int64(s[i])
	}
	return used
}

// find returns where the units of a time stand, or would, and their number.
func (s state) find(at string) (i int, units int64) {
	for ; i < len(s) && string(s[i:i+8]) < at; i += 9 {
	}
	if i < len(s) && string(s[i:i+8]) == at {
		units = int64(s[i+8])
	}
	return i, units
}

// add counts n more units at a time, or gives back so many of them at the most. It returns the change.
func (s state) add(at, n int64) (state, int64) {
	key := string(binary.BigEndian.AppendUint64(nil, uint64(at)))
	i, units := s.find(key)
	n = max(n, -units)
	rest := s[i:]
	if units > 0 {
		rest = s[i+9:]
	}
	if units += n; units > 0 {
		rest = state(key+string([]byte{byte(units)})) + rest
	}
	return s[:i] + rest, n
}

// step returns the states after a request, by the definition: none if it is not answered so. A bucket does not ask
// which units go back, so all of its units are of one time.
func step(s state, q asked, a answer) []state {
	if q.Bucket {
		q.At, a.At = 0, 0
	}
	switch q.Verb {
	case "reset":
		if a.Lost {
			return []state{s, ""}
		}
		return []state{""}
	case "return":
		if after, change := s.add(q.At, -q.Units); a.Lost {
			return []state{s, after}
		} else if a.Units == -change || len(s) == 0 && a.Units == q.Units {
			return []state{after}
		}
		return nil
	}
	admitted := q.Verb == "charge" || s.used()+q.Units <= limit
	after := s
	if admitted && q.Verb != "peek" {
		after, _ = s.add(a.At, q.Units)
	}
	left := limit - s.used()
	if admitted {
		left -= q.Units
	}
	switch {
	case a.Lost:
		return []state{s, after}
	case a.Allowed == admitted && a.Units == max(0, left):
		return []state{after}
	}
	return nil
}

var hashSeed = maphash.MakeSeed()

// timed is a state, and the newest time of an answer that led to it.
type timed struct {
	state
	newest int64
}

// model is the definition, and byTime is the definition by a clock that does not step back: a server runs requests in
// the order of its times. What byTime allows, model allows too: model, which takes longer, is asked only where byTime
// finds no order.
var model, byTime = newModel(false), newModel(true)

func newModel(byTime bool) porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{timed{}} },
		Step: func(s, q, a any) (all []any) {
			now, before := a.(answer).At, s.(timed)
			if now < before.newest && now > 0 {
				return nil
			}
			newest := before.newest
			if byTime {
				newest = max(newest, now)
			}
			for _, after := range step(before.state, q.(asked), a.(answer)) {
				all = append(all, timed{after, newest})
			}
			return all
		},
		Hash: func(s any) uint64 { return maphash.Comparable(hashSeed, s) },
	}).ToModel()
}

// check reports whether a history is linearizable, or Unknown after two minutes.
func check(seen []porcupine.Operation) porcupine.CheckResult {
	if porcupine.CheckOperationsTimeout(byTime, seen, time.Minute) == porcupine.Ok {
		return porcupine.Ok
	}
	return porcupine.CheckOperationsTimeout(model, seen, time.Minute)
}

// caller asks by one limiter about one client, and keeps what was answered.
type caller struct {
	limiter *core.Limiter
	bucket  bool
	rng     *rand.Rand
	held    []*core.Reservation
	history
}

// history is what a process saw of a history.
type history struct {
	Seen  []operation
	Wrong string
}

// one asks once. What was answered from memory is left out: another process may have given units back since.
func (c *caller) one(key string) {
	ctx := context.Background()
	q, a := asked{Verb: "take", Units: 1 + c.rng.Int64N(2), Bucket: c.bucket}, answer{}
	call, err := time.Now().UnixNano(), error(nil)
	switch verb := c.rng.IntN(12); {
	case verb == 0:
		q.Verb = "reset"
		err = c.limiter.Reset(ctx, key)
	case verb < 4 && len(c.held) > 0:
		r := c.held[0]
		c.held = c.held[1:]
		q = asked{"return", 1, r.Decision.At.UnixMicro(), c.bucket}
		a.Units, err = r.Return(ctx, 1)
	default:
		r := core.Request{Key: key, Cost: q.Units, Peek: verb == 11, Charge: verb == 10}
		q.Verb = map[int]string{10: "charge", 11: "peek"}[verb]
		one := c.limiter.Reserve(ctx, r)
		d := one.Decision
		if d.Source == core.SourceCached {
			return
		}
		a, err = answer{Allowed: d.Allowed, Units: d.Remaining, At: d.At.UnixMicro()}, d.Err
		if err == nil && d.Allowed && !r.Peek {
			c.held = append(c.held, one)
		}
	}
	back := time.Now().UnixNano()
	switch {
	case err != nil && errors.Is(err, core.ErrUnavailable) && core.StageOf(err) != core.StageReply:
		return // it was never sent
	case err != nil && strings.Contains(err.Error(), "script"): // which has run, and said something that cannot be
		c.Wrong = err.Error()
	case err != nil:
		a, back = answer{Lost: true}, math.MaxInt64
	}
	c.Seen = append(c.Seen, operation{q, a, call, back})
}

// A process takes jobs from its standard input, and writes a history for each to its standard output.
type job struct {
	Key    string
	Seed   uint64
	At     time.Time // when all processes begin
	Bucket bool
}

// kinds are the clients of Redis, by the number of servers.
var kinds = map[string]struct {
	servers int
	open    func(addrs []string) redis.UniversalClient
}{
	"a server": {1, func(addrs []string) redis.UniversalClient {
		return redis.NewClient(&redis.Options{Addr: addrs[0]})
	}},
	"a Cluster": {3, func(addrs []string) redis.UniversalClient {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	}},
	"a Ring": {2, func(addrs []string) redis.UniversalClient {
		return redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": addrs[0], "b": addrs[1]}})
	}},
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// TestMain is also that of the processes, which have these two variables.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // each outage is worth a line, and here they are many
	redis.SetLogger(quiet{})
	kind, isProcess := kinds[os.Getenv("LINEAR_KIND")]
	if !isProcess {
		os.Exit(m.Run())
	}
	byLog := core.Must(core.New(core.Config{
		Name: "linear", Store: redisstore.New(kind.open(strings.Fields(os.Getenv("LINEAR_ADDRS")))),
		Limits: []core.Limit{core.PerHour(limit)}, OnStoreError: core.FailClosed, Timeout: time.Second,
	}))
	byBucket := core.Must(byLog.Rule("even", core.PerHour(limit).Using(core.Bucket)))
	limiters := map[bool]*core.Limiter{false: byLog, true: byBucket}
	jobs, histories := gob.NewDecoder(os.Stdin), gob.NewEncoder(os.Stdout)
	for {
		var j job
		if jobs.Decode(&j) != nil {
			return // the test has ended
		}
		c := caller{limiter: limiters[j.Bucket], bucket: j.Bucket, rng: rand.New(rand.NewPCG(j.Seed, 0))}
		time.Sleep(time.Until(j.At))
		for range 6 {
			c.one(j.Key)
		}
		if err := histories.Encode(c.history); err != nil {
			panic(err)
		}
	}
}

// process is another process of this program.
type process struct {
	jobs      *gob.Encoder
	histories *gob.Decoder
}

// start starts eight processes with clients of the servers.
func start(t *testing.T, kind string, servers []*redistest.Server) (all [8]process) {
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	for i := range all {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), "LINEAR_KIND="+kind, "LINEAR_ADDRS="+strings.Join(addrs, " "))
		c.Stderr = os.Stderr
		in, err := c.StdinPipe()
		out, err2 := c.StdoutPipe()
		if err = errors.Join(err, err2, c.Start()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { in.Close(); c.Wait() })
		all[i] = process{gob.NewEncoder(in), gob.NewDecoder(out)}
	}
	return all
}

// play has the processes ask about one client at the same time, and returns what they saw.
func play(t *testing.T, all [8]process, key string, seed uint64, bucket bool) (seen []porcupine.Operation) {
	for i, p := range all {
		j := job{key, seed + uint64(i)<<32, time.Now().Add(time.Millisecond), bucket}
		if err := p.jobs.Encode(j); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range all {
		var h history
		if err := p.histories.Decode(&h); err != nil {
			t.Fatal(err)
		}
		if h.Wrong != "" {
			t.Errorf("%s, seed %d: %s", key, seed, h.Wrong)
		}
		for _, o := range h.Seen {
			seen = append(seen, porcupine.Operation{
				ClientId: i, Input: o.Asked, Call: o.Call, Output: o.Answer, Return: o.Return,
			})
		}
	}
	return seen
}

// TestLinearizable: all that eight processes are told, by all verbs, while connections are cut, is as if one request
// came after the other. An answer that is wrong is found out.
func TestLinearizable(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	for name, kind := range kinds {
		var servers []*redistest.Server
		if name == "a Cluster" {
			servers = redistest.StartCluster(t, kind.servers, 0).Servers
		} else {
			for range kind.servers {
				servers = append(servers, redistest.Start(t))
			}
		}
		all := start(t, name, servers)
		var ends []func()
		for _, s := range servers {
			ends = append(ends, redistest.Cut.Begin(t, s))
		}
		var histories, asked, lost, forged int
		next := func() {
			bucket := histories%2 == 1
			seen, unknown := play(t, all, fmt.Sprint(name, histories), *seed+uint64(histories), bucket), 0
			for _, o := range seen {
				if o.Output.(answer).Lost {
					unknown++
				}
			}
			asked, lost = asked+len(seen), lost+unknown
			if got := check(seen); got != porcupine.Ok {
				t.Errorf("%s, seed %d, history %d: %v:\n%+v", name, *seed, histories, got, seen)
			}
			if unknown == 0 { // else a forged answer might be right
				forged += forge(t, seen)
			}
			histories++
		}
		for began := time.Now(); time.Since(began) < *lasts; {
			next()
		}
		for _, end := range ends {
			end()
		}
		for range 20 { // where a busy machine had no history without a cut
			if forged == 0 {
				next()
			}
		}
		if lost == 0 || forged == 0 {
			t.Errorf("%s: %d replies were lost, %d answers forged: too few to prove anything", name, lost, forged)
		}
		t.Logf("proved: %s: %d histories of 8 processes, by a log and a bucket in turn, %d requests, %d replies lost, "+
			"all linearizable; all %d forged answers found out", name, histories, asked, lost, forged)
	}
}

// forge adds a last answer that is wrong, and returns 1, or 0 if a minute is too short to find that out.
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
				Input: asked{Verb: "peek"}, Call: call, Output: answer{Allowed: true, Units: units}, Return: call + 1,
			})
		}
		switch porcupine.CheckOperationsTimeout(model, wrong, time.Minute) {
		case porcupine.Ok:
			t.Errorf("a forged answer is not found out: %+v", wrong)
		case porcupine.Unknown:
			return 0
		}
	}
	return 1
}
