package regions

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/fakeserver"
	"github.com/sashlimit/sash/core/internal/lease"
	"github.com/sashlimit/sash/core/internal/remember"
	"github.com/sashlimit/sash/core/storetest"
)

var long = flag.Bool("long", false, "go through 2,000 histories of each mode instead of some")

// histories returns how many random histories a test goes through.
func histories() uint64 {
	if *long {
		return 2000
	}
	return 100
}

// world is some regions that serve one client: a server each, some processes, and the ways between.
type world struct {
	strict  bool
	limit   core.Limit
	servers []*fakeserver.Server
	names   map[string]int
	leases  bool
	loses   int // one way in so many; 0: none, and no way takes longer than another time

	mu       sync.Mutex // guards what follows
	rng      *rand.Rand
	ways     [][]time.Duration // from one region to another, one way
	cut      [][]bool
	used     []admission
	refused  int
	failures int
	longest  time.Duration // that a request took
	mayWait  bool          // for a region that is cut off
	sources  map[core.Source]int
	regions  map[bool]int // admissions, by whether another region decided
}

// admission is a request that was admitted, and used at a true time. By region, looks are the times of the looks that
// the decision is by.
type admission struct {
	region int
	at     time.Time
	units  int64
	looks  []time.Time
}

// newWorld returns regions at random distances, whose clocks show other times and go at another pace.
func newWorld(rng *rand.Rand, regions int, limit core.Limit) *world {
	w := &world{
		rng: rng, limit: limit, names: map[string]int{}, sources: map[core.Source]int{}, regions: map[bool]int{},
		loses: 30, leases: rng.IntN(2) == 0,
	}
	for i := range regions {
		s := fakeserver.New(time.Duration(rng.Int64N(int64(2*365*24*time.Hour))), limit)
		s.Pace = (rng.Float64() - 0.5) / 1000
		w.servers = append(w.servers, s)
		w.names[fmt.Sprintf("region %02d", i)] = i
		w.cut = append(w.cut, make([]bool, regions))
		w.ways = append(w.ways, nil)
		for j := range regions {
			way := 25*time.Millisecond + time.Duration(rng.Int64N(int64(125*time.Millisecond)))
			if i == j {
				way = 100 * time.Microsecond
			}
			w.ways[i] = append(w.ways[i], way)
		}
	}
	return w
}

func (w *world) random(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

// trip returns how long a way takes, or false if what is sent gets lost.
func (w *world) trip(from, to int) (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	way := w.ways[from][to]
	if w.loses == 0 {
		return way, !w.cut[from][to]
	}
	lost := from != to && w.rng.IntN(w.loses) == 0
	if w.rng.IntN(10) == 0 { // so that later looks come before earlier ones
		way *= 4
	}
	return way + time.Duration(w.rng.Int64N(int64(way/4)+1)), !lost && !w.cut[from][to]
}

// cuts cuts ways between regions at random, one way or both, and mends them, until ctx ends.
func (w *world) cuts(ctx context.Context, every time.Duration) {
	for ctx.Err() == nil {
		from, to, both := w.random(len(w.cut)), w.random(len(w.cut)), w.random(3) > 0
		time.Sleep(time.Duration(w.random(int(every))))
		w.setCut(from, to, both, true)
		time.Sleep(time.Duration(w.random(int(2 * every))))
		w.setCut(from, to, both, false)
	}
}

func (w *world) setCut(from, to int, both, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[from][to] = cut
	w.cut[to][from] = cut && both
}

// site is the store of a region as one process reaches it.
type site struct {
	wire
	refusals *remember.Refusals
	leases   *lease.Table
}

func (s site) Bind(b core.Binding) (core.Ledger, error) {
	s.wire.limits = b.Limits
	chain := s.refusals.Wrap(s.wire)
	if s.leases != nil {
		chain = s.leases.Wrap(chain, b.Limits)
	}
	return chain, nil
}

// wire is the way from a process to the server of a region, which decides by the limits.
type wire struct {
	*world
	from, to int
	limits   []core.Limit
	looks    *looks // of the process
}

// call runs a script at the server, and returns its true time when the reply is there.
func (k wire) call(ctx context.Context, run func()) (time.Time, error) {
	var ran time.Time
	done := make(chan struct{})
	go func() {
		way, arrives := k.trip(k.from, k.to)
		time.Sleep(way)
		if !arrives {
			return
		}
		ran = time.Now()
		run()
		way, arrives = k.trip(k.to, k.from)
		time.Sleep(way)
		if arrives {
			close(done)
		}
	}()
	select {
	case <-done:
		return ran, nil
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
}

type ranKey struct{}

// Take implements [core.Ledger].
func (k wire) Take(ctx context.Context, ask core.Ask) (core.Decision, error) {
	ctx, cancel := ask.Context(ctx)
	defer cancel()
	override := core.Override{Limits: k.limits}
	if o := ask.Override; o != nil {
		override.Charge, override.Ahead = o.Charge, o.Ahead
		if o.Limits != nil {
			override.Limits = o.Limits
		}
	}
	ask.Override = &override
	seen := k.looks.seen()
	var d core.Decision // not a result: where the caller leaves, the server may still write it
	ran, err := k.call(ctx, func() { d = k.servers[k.to].Decide(k.servers[k.to].Now(), ask) })
	if err != nil {
		return core.Decision{}, err
	}
	if a, ok := ctx.Value(ranKey{}).(*atomic.Pointer[admission]); ok {
		a.Store(&admission{at: ran, looks: seen})
	}
	return d, nil
}

// Usage implements [core.Ledger].
func (k wire) Usage(ctx context.Context, _ string) ([]core.Usage, error) {
	var uses []core.Usage
	sent := time.Now()
	ran, err := k.call(ctx, func() { uses = k.servers[k.to].Usage(k.servers[k.to].Now()) })
	if err != nil {
		return nil, err
	}
	k.looks.note(k.to, sent, ran)
	return uses, nil
}

func (k wire) Return(context.Context, core.Refund) (int64, error) { return 0, nil }

func (k wire) Reset(context.Context, string) error { return nil }

// process is a process of a region. It may crash, and begins anew then.
type process struct {
	*world
	region int

	life   sync.Mutex // guards what follows
	ledger core.Ledger
	looks  *looks
}

// boot starts the process: what it knew and held is lost.
func (p *process) boot() {
	n := len(p.servers)
	looks := &looks{sent: make([]time.Time, n), ran: make([]time.Time, n)}
	stores := map[string]core.Store{}
	here := ""
	for name, i := range p.names {
		s := site{wire: wire{world: p.world, from: p.region, to: i, looks: looks}, refusals: remember.New()}
		if p.leases {
			s.leases = lease.NewTable(lease.Terms{Size: 1000, Lifetime: 500 * time.Millisecond})
		}
		stores[name] = s
		if i == p.region {
			here = name
		}
	}
	store, err := New(Config{Here: here, Stores: stores, Strict: p.strict})
	if err != nil {
		panic(err)
	}
	ledger, err := store.Bind(core.Binding{Name: "api", Limits: []core.Limit{p.limit}})
	if err != nil {
		panic(err)
	}
	p.life.Lock()
	defer p.life.Unlock()
	p.ledger, p.looks = ledger, looks
}

// take makes a request and writes down what became of it.
func (p *process) take(cost int64, timeout time.Duration) {
	p.life.Lock()
	ledger := p.ledger
	p.life.Unlock()
	var ran atomic.Pointer[admission]
	ctx := context.WithValue(context.Background(), ranKey{}, &ran)
	began := time.Now()
	d, err := ledger.Take(ctx, core.Ask{Key: "client", Cost: cost, Timeout: timeout})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.longest = max(p.longest, time.Since(began))
	switch {
	case err != nil:
		p.failures++
		return
	case !d.Allowed:
		p.refused++
		return
	}
	a := &admission{at: time.Now()}
	if d.Source != core.SourceLeased {
		a = ran.Load()
	}
	a.region, a.units = p.names[d.Region], cost
	p.sources[d.Source]++
	p.regions[a.region != p.region]++
	p.used = append(p.used, *a)
}

// traffic is what the processes of a region ask for, by how much of the history has passed: a burst, and a rest.
type traffic func(region int, passed float64) (burst int, rest float64)

// kinds are kinds of traffic of some regions under a limit: rests are in windows.
func kinds(regions int, n int64) []traffic {
	some := int(n)/2 + 1
	return []traffic{
		func(region int, _ float64) (int, float64) { return 1 - min(region, 1), 0.5 / float64(n) },
		func(int, float64) (int, float64) { return 1, 0.7 * float64(regions) / float64(n) },
		func(region int, passed float64) (int, float64) { // follow the sun
			if int(passed*float64(regions)) != region {
				return 0, 0.05
			}
			return 1, 0.6 / float64(n)
		},
		func(int, float64) (int, float64) { return 2 * some, 0.6 }, // bursts everywhere
		func(region int, passed float64) (int, float64) { // from one region to the next
			if int(passed*20)%regions != region {
				return 0, 0.05
			}
			return some, 0.1
		},
		func(region int, _ float64) (int, float64) { return 1, 0.5 * float64(1+9*region) / float64(n) },
	}
}

// run has the processes of all regions serve the traffic for some windows, with crashes and cuts.
func (w *world) run(kind traffic, windows int) {
	whole := time.Duration(windows) * w.limit.Window
	ctx, cancel := context.WithTimeout(context.Background(), whole)
	defer cancel()
	began := time.Now()
	var group sync.WaitGroup
	if w.random(2) == 0 {
		group.Go(func() { w.cuts(ctx, w.limit.Window/2) })
	}
	for region := range w.servers {
		processes := 1 + w.random(4)
		for range processes {
			p := &process{world: w, region: region}
			p.boot()
			group.Go(func() {
				for ctx.Err() == nil {
					burst, rest := kind(region, float64(time.Since(began))/float64(whole))
					for range (burst + w.random(processes)) / processes {
						group.Go(func() { p.take(1+int64(w.random(8)/7), 600*time.Millisecond) })
					}
					if w.random(100) == 0 {
						p.boot()
					}
					time.Sleep(time.Duration((0.5+float64(w.random(100))/100)*rest*float64(w.limit.Window)) + 1)
				}
			})
		}
	}
	group.Wait()
	time.Sleep(time.Hour) // for what is under way
	synctest.Wait()
}

// randomWorld returns a random history that has been.
func randomWorld(seed uint64, strict bool) *world {
	rng := rand.New(rand.NewPCG(seed, 26))
	regions := 2 + rng.IntN(4)
	if rng.IntN(10) == 0 {
		regions = 10
	}
	limit := core.Per(1+rng.Int64N(50<<rng.IntN(3)), time.Duration(2+rng.IntN(6))*time.Second).Named("limit")
	w := newWorld(rng, regions, limit)
	w.strict = strict
	all := kinds(regions, limit.Requests)
	w.run(all[seed/4%uint64(len(all))], 3)
	return w
}

// looks holds, by region, when the latest look was sent of which a process has the answer, and when it ran.
type looks struct {
	mu        sync.Mutex
	sent, ran []time.Time
}

func (l *looks) note(region int, sent, ran time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sent.After(l.sent[region]) {
		l.sent[region], l.ran[region] = sent, ran
	}
}

func (l *looks) seen() []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.ran)
}

// outcomes returns the admissions for storetest.CheckLogs.
func (w *world) outcomes() (all []storetest.Outcome) {
	for _, a := range w.used {
		all = append(all, storetest.Outcome{At: a.at, Allowed: true, Cost: a.units})
	}
	return all
}
