//go:build !short

package redisstore_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/internal/redistest"
)

var (
	chaosFor  = flag.Duration("chaos", 0, "how long TestChaos goes on; 0: a few faults once")
	chaosSeed = flag.Uint64("chaos.seed", 0, "of the order of faults in TestChaos; 0: a new one")
)

const (
	chaosTimeout  = core.DefaultTimeout
	chaosLimit    = 40
	chaosWindow   = time.Second
	chaosKeys     = 4
	chaosReplicas = 4 // of which this process is one, in memory
)

// chaosLimits are the limits of the policies: fail open, closed, the fallback, and closed twice again.
var chaosLimits = []core.Limit{
	core.Per(chaosLimit, chaosWindow), core.Per(chaosLimit, chaosWindow), core.Per(chaosLimit, chaosWindow),
	core.Per(chaosLimit, chaosWindow).Using(core.CoarseLog), core.Per(chaosLimit, chaosWindow).Using(core.Bucket),
}

// stage is what chaos is made on: a Redis of some kind and a client of it.
type stage struct {
	*testing.T
	rdb     redis.UniversalClient
	server  *redistest.Server // of a single one, or one shard of a ring
	proxy   *redistest.Way
	cluster *redistest.Cluster
	sent    *redistest.Sentinel
}

// upset is a fault of the long form. begin makes it and returns what ends it;
// one that heals by a failover ends by itself.
type upset struct {
	client, name string
	quick        bool // is in the short form
	loses        bool // data may be lost
	failover     bool
	begin        func(s *stage) (end func())
}

// Faults that several kinds of clients see begin by one of these functions.

func nothing(*stage) (end func()) { return func() {} }

func kill(s *stage) (end func()) { return redistest.Refused.Begin(s, s.server) }

func pause(s *stage) (end func()) { return redistest.Silent.Begin(s, s.server) }

// replies makes the proxy treat replies by a mode, such as cuts.
func replies(mode int32) func(*stage) (end func()) {
	return func(s *stage) func() {
		s.proxy.Mode.Store(mode)
		return func() { s.proxy.Mode.Store(redistest.Passes) }
	}
}

// upsets are all faults, those of a server by itself among them.
var upsets = append(ofServer(), []upset{
	{client: "Client", name: "none", begin: nothing},
	{client: "Client", name: "replies lost", begin: replies(redistest.CutsInstead)},
	{client: "Client", name: "replies late", begin: replies(redistest.StaysSilent)},
	{client: "Client, pool of 1", name: "none", begin: nothing},
	{client: "Client, pool of 1", name: "silent (SIGSTOP)", begin: pause},
	{client: "Client, pool of 1", name: "refused (SIGKILL)", loses: true, begin: kill},
	{client: "Ring", name: "none", begin: nothing},
	{client: "Ring", name: "shard refused (SIGKILL)", loses: true, begin: kill},
	{client: "Ring", name: "shard silent (SIGSTOP)", quick: true, begin: pause},
	{client: "ClusterClient", name: "none", begin: nothing},
	{client: "ClusterClient", name: "slots migrate", begin: func(s *stage) func() {
		for slot := range 30 {
			s.cluster.BeginMigration(s, slot, s.cluster.Servers[0], s.cluster.Servers[1]).Finish(s)
		}
		return func() {}
	}},
	{client: "ClusterClient", name: "master killed", loses: true, failover: true, begin: func(s *stage) func() {
		s.cluster.Servers[0].Kill()
		return func() { s.cluster.WaitOK(s) }
	}},
	{
		client: "ClusterClient", name: "master silent", quick: true, loses: true, failover: true,
		begin: func(s *stage) func() {
			s.cluster.Servers[0].Pause()
			return func() { s.cluster.WaitOK(s) }
		},
	},
	{
		client: "FailoverClient", name: "master killed", quick: true, loses: true, failover: true,
		begin: func(s *stage) func() {
			s.sent.WaitOK(s).Kill()
			return func() { s.sent.WaitOK(s) }
		},
	},
	{client: "FailoverClient", name: "master silent", loses: true, failover: true, begin: func(s *stage) func() {
		s.sent.WaitOK(s).Pause()
		return func() { s.sent.WaitOK(s) }
	}},
}...)

func ofServer() (all []upset) {
	for _, f := range redistest.Faults {
		all = append(all, upset{
			client: "Client", name: f.Name, loses: f.Loses, quick: f.Name == redistest.Refused.Name ||
				f.Name == redistest.Silent.Name,
			begin: func(s *stage) func() { return f.Begin(s, s.server) },
		})
	}
	return all
}

func newStage(t *testing.T, client string) *stage {
	s := &stage{T: t}
	switch client {
	case "ClusterClient":
		s.cluster = redistest.StartCluster(t, 3, 1)
		for _, server := range s.cluster.Servers {
			if err := admin(t, server.Addr()).ConfigSet(ctx, "cluster-require-full-coverage", "no").Err(); err != nil {
				t.Fatal(err)
			}
		}
		s.rdb = s.cluster.Client(t)
	case "Ring":
		// go-redis takes a shard out of the ring after three failed heartbeats: of a
		// silent one, later than this fault lasts.
		servers, ring := startRing(t, 3, 0)
		s.server, s.rdb = servers[0], ring
	case "FailoverClient":
		s.sent = redistest.StartSentinel(t, 2, 3)
		s.rdb = s.sent.Client(t)
	default:
		s.server = redistest.Start(t)
		s.proxy = redistest.StartWay(t, s.server.Addr(), nil)
		o := &redis.Options{Addr: s.proxy.Addr()}
		if strings.Contains(client, "pool of 1") {
			o.PoolSize = 1
		}
		rdb := redis.NewClient(o)
		t.Cleanup(func() { rdb.Close() })
		s.rdb = rdb
	}
	return s
}

// answer is one decision of the load.
type answer struct {
	began, ended time.Time
	core.Decision
}

func (a answer) took() time.Duration { return a.ended.Sub(a.began) }

// report is a line of the table.
type report struct {
	upset
	rounds            int
	took, open        []time.Duration // during the fault; of those that the breaker answered
	late, byPolicy    int
	wrongIn, wrongOut int
	forged, unfound   int // admissions that were none, to see that the check finds them
	recovered         []time.Duration
}

// play makes one fault under load and adds what was seen to r.
func (r *report) play(t *testing.T, seed uint64) {
	noLeaks(t)
	s := newStage(t, r.client)
	store := redisstore.New(s.rdb)
	fallback := core.Fallback(memstore.New(), chaosReplicas)
	policies := []core.Policy{core.FailOpen, core.FailClosed, fallback, core.FailClosed, core.FailClosed}
	var limiters []*core.Limiter
	for i, policy := range policies {
		limiters = append(limiters, limiter(t, core.Config{
			Name: fmt.Sprint(i), Store: store, Limits: chaosLimits[i : i+1], OnStoreError: policy, Timeout: chaosTimeout,
		}))
	}
	probe := limiter(t, core.Config{
		Name: "probe", Store: store, Limits: []core.Limit{core.PerHour(1_000_000)},
		OnStoreError: core.FailClosed, Timeout: chaosTimeout,
	})
	healed := func() error {
		for i := range 12 {
			if err := probe.Allow(ctx, fmt.Sprint(i)).Err; err != nil {
				return err
			}
		}
		return nil
	}
	redistest.WaitFor(t, "first decisions", healed)

	ledger := newLedger(t, store)
	var mu sync.Mutex
	answers := map[[2]int][]answer{} // by policy and key
	var stopped atomic.Bool
	var group sync.WaitGroup
	workers := 40
	if *chaosFor > 0 {
		workers = 200
	}
	for worker := range workers {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(worker)))
			own := map[[2]int][]answer{}
			for !stopped.Load() {
				who := [2]int{rng.IntN(len(limiters)), rng.IntN(chaosKeys)}
				a := answer{began: time.Now()}
				a.Decision = limiters[who[0]].Allow(ctx, fmt.Sprint(who[1]))
				a.ended = time.Now()
				own[who] = append(own[who], a)
				if rng.IntN(4) == 0 {
					ledger.step(rng)
				}
				time.Sleep(time.Duration(20+rng.IntN(80)) * time.Millisecond)
			}
			mu.Lock()
			defer mu.Unlock()
			for who, a := range own {
				answers[who] = append(answers[who], a...)
			}
		})
	}
	stop := sync.OnceFunc(func() { stopped.Store(true); group.Wait() })
	t.Cleanup(stop)
	time.Sleep(500 * time.Millisecond)
	began := time.Now()
	end := r.begin(s)
	if !r.failover {
		time.Sleep(1500 * time.Millisecond)
	}
	end()
	ended := time.Now()
	redistest.WaitFor(t, "decisions to be counted again", healed)
	recovered := time.Now()
	r.recovered = append(r.recovered, recovered.Sub(ended))
	time.Sleep(chaosWindow + 500*time.Millisecond)
	stop()
	tooMany, tooFew := ledger.audit(t)
	t.Logf("%d units too many are counted, and %d too few", tooMany, tooFew)
	if r.client == "Ring" {
		tooMany = 0 // a Return goes to the shard that has the client now, which may not have counted the unit
	}
	if !r.loses && tooMany+tooFew > 0 {
		t.Error("units were charged or given back twice")
	}

	r.rounds++
	opened := recovered // when the breaker answered for the first time
	for _, all := range answers {
		for _, a := range all {
			if errors.Is(a.Err, core.ErrUnavailable) && a.ended.Before(opened) {
				opened = a.ended
			}
		}
	}
	for who, all := range answers {
		for _, a := range all {
			if a.ended.After(began) && a.began.Before(recovered) {
				r.took = append(r.took, a.took())
				if a.took() > chaosTimeout+5*time.Millisecond {
					r.late++
				}
				if errors.Is(a.Err, core.ErrUnavailable) && a.began.After(opened) {
					r.open = append(r.open, a.took())
				}
			}
		}
		r.judge(who[0], all, recovered)
	}
}

// judge holds the decisions on one client against the promise.
func (r *report) judge(policy int, all []answer, recovered time.Time) {
	var outcomes, fallback []storetest.Outcome
	for _, a := range all {
		o := storetest.Outcome{At: a.At, Allowed: a.Allowed, Cost: 1}
		switch {
		case a.Err == nil:
			outcomes = append(outcomes, o)
			continue
		case policy == 0 && !a.Allowed:
			r.wrongOut++
		case policy == 2 && a.Allowed:
			fallback = append(fallback, o)
		case policy != 0 && a.Allowed:
			r.wrongIn++
		}
		// A decision without Redis may have been charged all the same, when it was
		// made or, if the server was silent, before the server answered again: on a
		// busy machine that is long after the fault.
		r.byPolicy++
		o.At, o.Until = a.began, a.ended.Add(500*time.Millisecond)
		if a.ended.Before(recovered) {
			o.Until = recovered.Add(500 * time.Millisecond)
		}
		outcomes = append(outcomes, o)
	}
	r.forge(outcomes, chaosLimits[policy])
	r.hold(outcomes, chaosLimits[policy])
	r.hold(fallback, core.Per(chaosLimit/chaosReplicas, chaosWindow))
	// The bound of core.Fallback for a window that holds the end of an outage, with one
	// of the replicas: N of the store and a share.
	counted := slices.DeleteFunc(outcomes, func(o storetest.Outcome) bool { return !o.Allowed || !o.Until.IsZero() })
	if chaosLimits[policy].Algorithm.Even() {
		return
	}
	r.hold(append(counted, fallback...), core.Per(chaosLimit+chaosLimit/chaosReplicas, chaosWindow))
}

// forge makes an admission of a refusal, where all answers are known, and counts what the check does not find.
func (r *report) forge(outcomes []storetest.Outcome, limit core.Limit) {
	refused := slices.IndexFunc(outcomes, func(o storetest.Outcome) bool { return !o.Allowed })
	known := !slices.ContainsFunc(outcomes, func(o storetest.Outcome) bool { return !o.Until.IsZero() })
	if refused < 0 || !known || limit.Algorithm == core.CoarseLog { // which may refuse where a log does not
		return
	}
	wrong := slices.Clone(outcomes)
	wrong[refused].Allowed = true
	if r.forged++; storetest.CheckLogs(wrong, limit) == nil {
		r.unfound++
	}
}

// hold holds outcomes against a limit.
func (r *report) hold(outcomes []storetest.Outcome, limit core.Limit) {
	var wrong *storetest.Violations
	if errors.As(storetest.CheckLogs(outcomes, limit), &wrong) {
		r.wrongIn += wrong.Above
		r.wrongOut += wrong.Refused
	}
}

// quantile sorts and returns the value that a part of all does not exceed.
func quantile(d []time.Duration, part float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[min(len(d)-1, int(part*float64(len(d))))]
}

// columns are the heads of the table that TestChaos prints.
var columns = []string{
	"client", "fault", "requests", "by policy", "within budget",
	"p50", "p99", "p99.9", "max", "p99.9, breaker open",
	"wrongly admitted", "wrongly refused", "counted again after",
}

// cells returns the report's line of the table, a cell for each of columns.
func (r *report) cells() []string {
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }
	took := func(part float64) string { return ms(quantile(r.took, part)) }
	open := "-"
	if len(r.open) > 0 {
		open = ms(quantile(r.open, 0.999))
	}
	late := float64(r.late) / float64(max(1, len(r.took)))
	return []string{
		r.client, r.name, strconv.Itoa(len(r.took)), strconv.Itoa(r.byPolicy), fmt.Sprintf("%.2f %%", 100-100*late),
		took(0.5), took(0.99), took(0.999), took(1), open,
		strconv.Itoa(r.wrongIn), strconv.Itoa(r.wrongOut), ms(quantile(r.recovered, 1)),
	}
}

// TestChaos makes faults under the load of 40 goroutines, on Redis and clients of
// all kinds. The long form makes all of them, in random order under the load of 200,
// and prints what came of it:
//
//	go test -count=1 -timeout 30m -v -run '^TestChaos$' ./core/redisstore -args -chaos 5m
//
// Times are printed and not judged. What is judged: that all heals, and that
// where no data were lost nobody was wrongly admitted or refused.
func TestChaos(t *testing.T) {
	t.Parallel()
	seed := cmp.Or(*chaosSeed, rand.Uint64())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	reports := make([]*report, 0, len(upsets))
	for _, u := range upsets {
		if u.quick || *chaosFor > 0 {
			reports = append(reports, &report{upset: u})
		}
	}
	t.Run("faults", func(t *testing.T) { // until all have ended
		for start, round := time.Now(), uint64(0); round == 0 || time.Since(start) < *chaosFor; round++ {
			for _, i := range rng.Perm(len(reports)) {
				r := reports[i]
				t.Run(fmt.Sprintf("%d %s, %s", round, r.client, r.name), func(t *testing.T) {
					if *chaosFor == 0 {
						t.Parallel()
					}
					r.play(t, seed+round)
				})
			}
		}
	})
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 1, ' ', tabwriter.Debug|tabwriter.AlignRight)
	fmt.Fprintln(w, strings.Join(columns, "\t")+"\t")
	for _, r := range reports {
		if r.rounds == 0 {
			continue
		}
		fmt.Fprintln(w, strings.Join(r.cells(), "\t")+"\t")
		if !r.loses && r.wrongIn+r.wrongOut > 0 {
			t.Errorf("%s, %s: %d wrongly admitted, %d wrongly refused", r.client, r.name, r.wrongIn, r.wrongOut)
		}
	}
	w.Flush()
	faults, decisions, forged := 0, 0, 0
	for _, r := range reports {
		faults, decisions, forged = faults+r.rounds, decisions+len(r.took), forged+r.forged
		if r.unfound > 0 {
			t.Errorf("%s, %s: %d of %d forged admissions were not found out", r.client, r.name, r.unfound, r.forged)
		}
	}
	t.Logf("proved: %d faults of %d kinds, %d decisions while they lasted, none wrong where no data were lost; "+
		"all %d forged admissions were found out", faults, len(reports), decisions, forged)
	t.Logf("timeout %v, %d rounds, seed %d\n%s", chaosTimeout, reports[0].rounds, seed, &table)
}

// ledger is what the load of TestChaos has charged and given back of a few clients, as far as
// it has been told.
type ledger struct {
	limiter *core.Limiter
	clients [chaosKeys]struct{ charged, returned, maybeCharged, maybeReturned atomic.Int64 }
}

const ledgerLimit = core.MaxLogRequests

func newLedger(t *testing.T, store core.Store) *ledger {
	return &ledger{limiter: limiter(t, core.Config{
		Name: "ledger", Store: store, Limits: []core.Limit{core.Per(ledgerLimit, time.Hour)},
		OnStoreError: core.FailClosed, Timeout: chaosTimeout,
	})}
}

// step charges a unit, or reserves one and gives it back.
func (l *ledger) step(rng *rand.Rand) {
	i := rng.IntN(chaosKeys)
	client := &l.clients[i]
	r := core.Request{Key: fmt.Sprint(i), Cost: 1, Charge: rng.IntN(3) == 0}
	one := l.limiter.Reserve(ctx, r)
	if err := one.Decision.Err; err != nil {
		if mayBeSent(err) {
			client.maybeCharged.Add(1)
		}
		return
	}
	client.charged.Add(1)
	if r.Charge {
		return
	}
	n, err := one.Return(ctx, 1)
	client.returned.Add(n)
	if err != nil && mayBeSent(err) {
		client.maybeReturned.Add(1)
	}
}

// mayBeSent reports whether a request that failed with err may have been sent.
func mayBeSent(err error) bool {
	return !errors.Is(err, core.ErrUnavailable) || core.StageOf(err) == core.StageReply
}

// audit returns how many units too many the store counts, which were charged twice, and how
// many too few, which were given back twice.
func (l *ledger) audit(t *testing.T) (tooMany, tooFew int64) {
	for i := range l.clients {
		client := &l.clients[i]
		var d core.Decision
		redistest.WaitFor(t, "the count of a client", func() error {
			d = l.limiter.AllowN(ctx, fmt.Sprint(i), 0)
			return d.Err
		})
		counted := ledgerLimit - d.Remaining
		told := client.charged.Load() - client.returned.Load()
		tooMany += max(0, counted-told-client.maybeCharged.Load())
		tooFew += max(0, told-client.maybeReturned.Load()-counted)
	}
	return tooMany, tooFew
}

// TestExactAcrossStores checks every window of a key that eight stores hammer, by two limits that bind by turns. They
// share nothing but Redis, as eight processes do: no store has a client, or what it remembers, from another.
func TestExactAcrossStores(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	limits := []core.Limit{core.Per(40, 50*time.Millisecond), core.Per(100, 400*time.Millisecond)}
	var outcomes []storetest.Outcome
	var mu sync.Mutex
	var group sync.WaitGroup
	for range 8 {
		l := limiter(t, core.Config{Store: redisstore.New(server.Client(t)), Limits: limits, Timeout: patient})
		group.Go(func() {
			own := hammer(t, l)
			mu.Lock()
			defer mu.Unlock()
			outcomes = append(outcomes, own...)
		})
	}
	group.Wait()
	if err := storetest.CheckLogs(outcomes, limits...); err != nil {
		t.Error(err)
	}
}

// hammer decides as fast as it can for some windows. It returns what Redis has decided, and one in 16 of the refusals
// that the store remembers, which are most.
func hammer(t *testing.T, l *core.Limiter) (outcomes []storetest.Outcome) {
	remembered, admitted := 0, 0
	for end := time.Now().Add(time.Second); time.Now().Before(end) || admitted < 10; {
		cost := 1 + max(0, rand.Int64N(50)-45)
		d := l.AllowN(ctx, "k", cost)
		if d.Err != nil {
			t.Error(d.Err)
			break
		}
		if d.Allowed {
			admitted++
		}
		if d.Source == core.SourceRemembered {
			if remembered++; remembered%16 != 0 {
				continue
			}
		}
		outcomes = append(outcomes, storetest.Outcome{At: d.At, Allowed: d.Allowed, Cost: cost})
	}
	return outcomes
}
