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
	"github.com/sashlimit/sash/internal/hidden"
	"github.com/sashlimit/sash/internal/redistest"
)

var (
	chaosFor  = flag.Duration("chaos", 0, "how long TestChaos goes on; 0: a few faults once")
	chaosSeed = flag.Uint64("chaos.seed", 0, "of the order of faults in TestChaos; 0: a new one")
)

const (
	chaosTimeout  = hidden.DefaultTimeout
	chaosLimit    = 40
	chaosWindow   = time.Second
	chaosKeys     = 4
	chaosReplicas = 4 // of which this process is one, in memory
	chaosCoarse   = 3 // the policy whose limit is a coarse log
)

// stage is what chaos is made on: a Redis of some kind and a client of it.
type stage struct {
	*testing.T
	rdb     redis.UniversalClient
	server  *redistest.Server // of a single one, or one shard of a ring
	admin   *redis.Client
	proxy   *proxy
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

func kill(s *stage) (end func()) {
	s.server.Kill()
	return s.server.Restart
}

func pause(s *stage) (end func()) {
	s.server.Pause()
	return s.server.Resume
}

// replies makes the proxy treat replies by a mode, such as cuts.
func replies(mode int32) func(*stage) (end func()) {
	return func(s *stage) func() {
		s.proxy.mode.Store(mode)
		return func() { s.proxy.mode.Store(passes) }
	}
}

var upsets = []upset{
	{client: "Client", name: "none", begin: nothing},
	{client: "Client", name: "refused (SIGKILL)", loses: true, quick: true, begin: kill},
	{client: "Client", name: "silent (SIGSTOP)", quick: true, begin: pause},
	{client: "Client", name: "CLIENT PAUSE", begin: func(s *stage) func() {
		s.admin.Do(ctx, "CLIENT", "PAUSE", 600000, "WRITE")
		return func() { s.admin.Do(ctx, "CLIENT", "UNPAUSE") }
	}},
	{client: "Client", name: "replies lost", begin: replies(cuts)},
	{client: "Client", name: "replies late", begin: replies(silences)},
	{client: "Client", name: "READONLY", loses: true, begin: func(s *stage) func() {
		s.admin.Do(ctx, "REPLICAOF", "127.0.0.1", 1)
		return func() { s.admin.Do(ctx, "REPLICAOF", "NO", "ONE") }
	}},
	{client: "Client", name: "OOM", begin: func(s *stage) func() {
		s.admin.Do(ctx, "CONFIG", "SET", "maxmemory", 1)
		return func() { s.admin.Do(ctx, "CONFIG", "SET", "maxmemory", 0) }
	}},
	{client: "Client", name: "NOSCRIPT", begin: func(s *stage) func() {
		var stopped atomic.Bool
		var group sync.WaitGroup
		group.Go(func() {
			for !stopped.Load() {
				s.admin.ScriptFlush(ctx)
				time.Sleep(50 * time.Millisecond)
			}
		})
		return func() { stopped.Store(true); group.Wait() }
	}},
	{client: "Client", name: "BUSY script", begin: func(s *stage) func() {
		s.admin.Do(ctx, "CONFIG", "SET", "busy-reply-threshold", 200)
		busy := redis.NewClient(&redis.Options{Addr: s.server.Addr(), ReadTimeout: time.Minute, MaxRetries: -1})
		ended := make(chan error, 1)
		go func() { ended <- busy.Do(ctx, "EVAL", "while true do end", 0).Err() }()
		return func() {
			redistest.WaitFor(s, "the script to end", func() error {
				s.admin.ScriptKill(ctx)
				select {
				case <-ended:
					return busy.Close()
				default:
					return errors.New("it goes on")
				}
			})
		}
	}},
	{client: "Client, pool of 1", name: "none", begin: nothing},
	{client: "Client, pool of 1", name: "silent (SIGSTOP)", begin: pause},
	{client: "Client, pool of 1", name: "refused (SIGKILL)", loses: true, begin: kill},
	{client: "Ring", name: "none", begin: nothing},
	{client: "Ring", name: "shard refused (SIGKILL)", loses: true, begin: kill},
	{client: "Ring", name: "shard silent (SIGSTOP)", quick: true, begin: pause},
	{client: "ClusterClient", name: "none", begin: nothing},
	{client: "ClusterClient", name: "slots migrate", begin: func(s *stage) func() {
		for slot := range 30 {
			s.cluster.MigrateSlot(s, slot, s.cluster.Servers[0], s.cluster.Servers[1])
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
		s.admin = redis.NewClient(&redis.Options{Addr: s.server.Addr(), PoolSize: 1})
		t.Cleanup(func() { s.admin.Close() })
		s.proxy = startProxy(t, s.server.Addr())
		o := &redis.Options{Addr: s.proxy.addr()}
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
	recovered         []time.Duration
}

// play makes one fault under load and adds what was seen to r.
func (r *report) play(t *testing.T, seed uint64) {
	noLeaks(t)
	s := newStage(t, r.client)
	store := redisstore.New(s.rdb)
	fallback := core.Fallback(memstore.New(), core.Share(chaosReplicas))
	policies := []core.Policy{core.FailOpen, core.FailClosed, fallback, core.FailClosed}
	var limiters []*core.Limiter
	for i, policy := range policies {
		limit := core.Per(chaosLimit, chaosWindow)
		if i == chaosCoarse {
			limit = limit.Using(core.CoarseLog)
		}
		limiters = append(limiters, limiter(t, core.Config{
			Name: fmt.Sprint(i), Store: store, Limits: []core.Limit{limit}, OnStoreError: policy, Timeout: chaosTimeout,
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
	for worker := range 200 {
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
	t.Logf("%v: %d too many are counted, and %d too few", ledger, tooMany, tooFew)
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
		slices.SortFunc(all, func(a, b answer) int { return a.At.Compare(b.At) })
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
	// A decision without Redis may have been charged all the same, when it was
	// made or, if the server was silent, before the server answered again: on a
	// busy machine that is long after the fault.
	type span struct{ from, to time.Time }
	var uncertain []span
	var counted, fallback []time.Time
	for _, a := range all {
		switch {
		case a.Err != nil:
			r.byPolicy++
			to := a.ended
			if to.Before(recovered) {
				to = recovered
			}
			uncertain = append(uncertain, span{a.began, to.Add(500 * time.Millisecond)})
			switch policy {
			case 0:
				if !a.Allowed {
					r.wrongOut++
				}
			case 1, chaosCoarse:
				if a.Allowed {
					r.wrongIn++
				}
			case 2:
				if a.Allowed {
					fallback = append(fallback, a.At)
				}
			}
		case a.Allowed:
			counted = append(counted, a.At)
		}
	}
	excess := func(at []time.Time, limit int) (n int) {
		first := 0
		for i, t := range at {
			for !at[first].After(t.Add(-chaosWindow)) {
				first++
			}
			if i-first+1 > limit {
				n++
			}
		}
		return n
	}
	if policy == 2 {
		// The bound of core.Fallback for a window that holds the end of an outage, with one
		// of the replicas: N of the store and a share.
		both := append(slices.Clone(counted), fallback...)
		slices.SortFunc(both, time.Time.Compare)
		r.wrongIn += excess(both, chaosLimit+chaosLimit/chaosReplicas)
	} else {
		r.wrongIn += excess(counted, chaosLimit)
	}
	r.wrongIn += excess(fallback, chaosLimit/chaosReplicas)
	counts := chaosWindow // the longest that a unit does
	if policy == chaosCoarse {
		counts += chaosWindow / 60
	}
	for _, a := range all {
		if a.Err != nil || a.Allowed {
			continue
		}
		from := a.At.Add(-counts)
		units := 0
		for _, t := range counted {
			if t.After(from) && !t.After(a.At) {
				units++
			}
		}
		for _, u := range uncertain {
			if u.to.After(from) && !u.from.After(a.At) {
				units++
			}
		}
		if units < chaosLimit {
			r.wrongOut++
		}
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

// TestChaos makes faults in random order under the load of 200 goroutines, on
// Redis and clients of all kinds, and prints what came of it. The long form:
//
//	go test -count=1 -timeout 30m -v -run '^TestChaos$' ./core/redisstore -args -chaos 5m
//
// Times are printed and not judged. What is judged: that all heals, and that
// where no data were lost nobody was wrongly admitted or refused.
func TestChaos(t *testing.T) {
	seed := cmp.Or(*chaosSeed, rand.Uint64())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	reports := make([]*report, 0, len(upsets))
	for _, u := range upsets {
		if u.quick || *chaosFor > 0 {
			reports = append(reports, &report{upset: u})
		}
	}
	for start, round := time.Now(), uint64(0); round == 0 || time.Since(start) < *chaosFor; round++ {
		for _, i := range rng.Perm(len(reports)) {
			r := reports[i]
			t.Run(fmt.Sprintf("%d %s, %s", round, r.client, r.name), func(t *testing.T) { r.play(t, seed+round) })
		}
	}
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
	t.Logf("timeout %v, 200 goroutines, %d rounds, seed %d\n%s", chaosTimeout, reports[0].rounds, seed, &table)
}
