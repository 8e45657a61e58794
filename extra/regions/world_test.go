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
	"github.com/sashlimit/sash/core/storetest/remotetest"
)

const ms = time.Millisecond

var (
	long  = flag.Bool("long", false, "go through 2,000 histories of each mode instead of 100")
	first = flag.Uint64("seed", 0, "the seed of the first history; without -long go through that one alone")
)

// world is some regions that serve one client: a server each, some processes, and the ways between.
type world struct {
	strict  bool
	alone   bool // each region counts for itself
	limits  []core.Limit
	servers []*remotetest.Server
	names   map[string]int
	leases  bool
	loses   int // one way in so many; 0: none, and no way takes longer than another time

	mu      sync.Mutex // guards the rest
	rng     *rand.Rand
	ways    [][]time.Duration // from one region to another, one way
	cut     [][]bool
	used    []admission
	longest time.Duration  // that a request took
	had     map[string]int // how often something was in the history
}

// admission is a request that was admitted, and used at a true time. By region, looks are the latest ones of which the
// process had the answer then.
type admission struct {
	region int
	at     time.Time
	units  int64
	looks  []ran
}

// ran is when a look was sent, and when it ran by the true time.
type ran struct{ sent, ran time.Time }

// newWorld returns regions at random distances, whose clocks show other times and go at another pace.
func newWorld(rng *rand.Rand, regions int, limits ...core.Limit) *world {
	w := &world{
		rng: rng, limits: limits, names: map[string]int{}, had: map[string]int{}, loses: 30, leases: rng.IntN(2) == 0,
	}
	for i := range regions {
		const years = 4 * 365 * 24 * time.Hour
		s := remotetest.NewServer(time.Duration(rng.Int64N(int64(years)))-years/2, limits...)
		s.Pace = (rng.Float64() - 0.5) / 1000
		w.servers = append(w.servers, s)
		w.names[fmt.Sprintf("region %02d", i)] = i
		w.cut = append(w.cut, make([]bool, regions))
		w.ways = append(w.ways, make([]time.Duration, regions))
		for j := range regions {
			w.ways[i][j] = 25*ms + time.Duration(rng.Int64N(int64(125*ms)))
		}
		w.ways[i][i] = ms / 10
	}
	return w
}

func (w *world) random(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.had[what]++
}

// trip returns how long a way takes, or false if what is sent gets lost.
func (w *world) trip(from, to int) (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	way, cut := w.ways[from][to], w.cut[from][to]
	if w.loses == 0 {
		return way, !cut
	}
	lost := from != to && w.rng.IntN(w.loses) == 0
	if lost {
		w.had["lost"]++
	}
	if cut {
		w.had["sent into a cut"]++
	}
	if w.rng.IntN(10) == 0 { // so that later looks come before earlier ones
		way *= 4
	}
	return way + time.Duration(w.rng.Int64N(int64(way/4)+1)), !lost && !cut
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

// bindFunc is a store.
type bindFunc func(core.Binding) (core.Ledger, error)

func (f bindFunc) Bind(b core.Binding) (core.Ledger, error) { return f(b) }

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

// served is the name of the client that the servers count.
const served = "client"

// Take implements [core.Ledger]. Other names than the client's have just used up their limits.
func (k wire) Take(ctx context.Context, ask core.Ask) core.Decision {
	if ask.Key != served {
		return core.Decision{Allowed: true, Limit: k.limits[0]}
	}
	ctx, cancel := ask.Context(ctx)
	defer cancel()
	var o core.Override
	if ask.Override != nil {
		o = *ask.Override
	}
	if ask.Override = &o; o.Limits == nil {
		o.Limits = k.limits
	}
	seen := k.looks.seen()
	var d core.Decision // not a result: where the caller leaves, the server may still write it
	ran, err := k.call(ctx, func() { d = k.servers[k.to].Decide(k.servers[k.to].Now(), ask) })
	if err != nil {
		return core.Decision{Err: err}
	}
	if a, ok := ctx.Value(ranKey{}).(*atomic.Pointer[admission]); ok {
		a.Store(&admission{at: ran, looks: seen})
	}
	return d
}

// Usage implements [core.Ledger].
func (k wire) Usage(ctx context.Context, key string) ([]core.Usage, error) {
	var uses []core.Usage
	looked := ran{sent: time.Now()}
	var err error
	looked.ran, err = k.call(ctx, func() { uses = k.servers[k.to].Usage(k.servers[k.to].Now()) })
	if err != nil {
		return nil, err // the server may still write uses
	}
	if key == served {
		k.looks.note(k.to, looked)
	}
	return uses, nil
}

func (k wire) Return(context.Context, core.Refund) (int64, error) { return 0, nil }

func (k wire) Reset(context.Context, string) error { return nil }

// looks holds, by region, the latest look of which a process has the answer.
type looks struct {
	mu     sync.Mutex
	latest []ran
}

func (l *looks) note(region int, look ran) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if look.sent.After(l.latest[region].sent) {
		l.latest[region] = look
	}
}

func (l *looks) seen() []ran {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.latest)
}

// process is a process of a region. It may crash, and begins anew then.
type process struct {
	*world
	region int
	ledger atomic.Pointer[core.Ledger]
}

// boot starts the process: what it knew and held is lost.
func (p *process) boot() {
	c := Config{Stores: map[string]core.Store{}, Strict: p.strict}
	looks := &looks{latest: make([]ran, len(p.servers))}
	for name, i := range p.names {
		if i == p.region {
			c.Here = name
		} else if p.alone {
			continue
		}
		c.Stores[name] = bindFunc(func(b core.Binding) (core.Ledger, error) {
			return remotetest.Wrap(b, wire{p.world, p.region, i, b.Limits, looks}, p.leases), nil
		})
	}
	store, err := New(c)
	if err != nil {
		panic(err)
	}
	ledger, err := store.Bind(core.Binding{Name: "api", Limits: p.limits})
	if err != nil {
		panic(err)
	}
	p.ledger.Store(&ledger)
}

// Take asks the process.
func (p *process) Take(ctx context.Context, ask core.Ask) core.Decision {
	return (*p.ledger.Load()).Take(ctx, ask)
}

// take makes a request and notes the answer.
func (p *process) take(cost int64, timeout time.Duration) {
	var ran atomic.Pointer[admission]
	ctx := context.WithValue(context.Background(), ranKey{}, &ran)
	began := time.Now()
	d := p.Take(ctx, core.Ask{Key: served, Cost: cost, Timeout: timeout})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.longest = max(p.longest, time.Since(began))
	switch {
	case d.Err != nil:
		p.had["failed"]++
		return
	case !d.Allowed:
		p.had["refused"]++
		return
	}
	p.had["admitted"]++
	a := &admission{at: time.Now()}
	if d.Source == core.SourceLeased {
		p.had["leased"]++
	} else {
		a = ran.Load()
	}
	a.region, a.units = p.region, cost
	if !p.alone {
		a.region = p.names[d.Region]
	}
	if a.region != p.region {
		p.had["admitted elsewhere"]++
	}
	p.used = append(p.used, *a)
}

// flood asks under 1,500 other names, each 5 times a second, for so long.
func (p *process) flood(lasts time.Duration) {
	for tick, began := 0, time.Now(); time.Since(began) < lasts; tick++ {
		for i := range 30 {
			ask := core.Ask{Key: fmt.Sprint("other ", tick%50*30+i), Cost: 1, Timeout: ms}
			if err := p.Take(context.Background(), ask).Err; err != nil {
				panic(err)
			}
		}
		time.Sleep(4 * ms)
	}
}

// traffic is what the processes of a region ask for, by how much of the history has passed: a burst, and a rest in
// windows. Bursts of all processes are at the same time, or each at its own.
type traffic struct {
	name     string
	ask      func(region int, passed float64) (burst int, rest float64)
	together bool
}

// kinds are kinds of traffic of some regions under a limit.
func kinds(regions int, n int64) []traffic {
	some := int(n)/2 + 1
	everywhere := func(int, float64) (int, float64) { return 2 * some, 0.6 }
	turns := func(region int, passed float64) (int, float64) {
		if int(passed*20)%regions != region {
			return 0, 0.05
		}
		return some, 0.1
	}
	return []traffic{
		{name: "one region", ask: func(region int, _ float64) (int, float64) {
			return 1 - min(region, 1), 0.5 / float64(n)
		}},
		{name: "spread", ask: func(int, float64) (int, float64) { return 1, 0.7 * float64(regions) / float64(n) }},
		{name: "sun", ask: func(region int, passed float64) (int, float64) {
			if int(passed*float64(regions)) != region {
				return 0, 0.05
			}
			return 1, 0.6 / float64(n)
		}},
		{name: "bursts", ask: everywhere},
		{name: "bursts at once", ask: everywhere, together: true},
		{name: "bursts in turn", ask: turns, together: true},
		{name: "bursts after rests", together: true, ask: func(int, float64) (int, float64) { return 2 * some, 0.95 }},
		{name: "slow and fast", ask: func(region int, _ float64) (int, float64) {
			return 1, 0.5 * float64(1+9*region) / float64(n)
		}},
	}
}

// usual is what all histories together must have had.
var usual = []string{
	"2 regions", "10 regions", "1 processes", "4 processes", "2 limits", "lost", "sent into a cut", "crashes",
	"one region", "spread", "sun", "bursts", "bursts at once", "bursts in turn", "bursts after rests", "slow and fast",
	"late", "admitted", "refused", "failed",
}

// run has the processes of all regions serve the traffic for some windows, with crashes and cuts.
func (w *world) run(kind traffic, windows int) {
	window, began := w.limits[0].Window, time.Now()
	whole := time.Duration(windows) * window
	ctx, cancel := context.WithTimeout(context.Background(), whole)
	defer cancel()
	if w.random(2) == 0 {
		go w.cuts(ctx, window/2)
	}
	for region := range w.servers {
		processes := 1 + w.random(4)
		w.count(fmt.Sprint(processes, " processes"))
		for range processes {
			p := &process{world: w, region: region}
			p.boot()
			go func() {
				for ctx.Err() == nil {
					burst, rest := kind.ask(region, float64(time.Since(began))/float64(whole))
					for range (burst + w.random(processes)) / processes {
						go p.take(1+int64(w.random(8)/7), 600*ms)
					}
					if w.random(100) == 0 {
						w.count("crashes")
						p.boot()
					}
					pause := time.Duration(rest*float64(window)) + 1
					if kind.together {
						time.Sleep(pause - time.Since(began)%pause)
					} else {
						time.Sleep(pause/2 + time.Duration(w.random(int(pause))))
					}
				}
			}()
		}
	}
	settle()
}

// settle waits until nothing is under way.
func settle() {
	time.Sleep(time.Hour)
	synctest.Wait()
}

// randomWorld returns a random history that has been.
func randomWorld(seed uint64, strict bool) *world {
	rng := rand.New(rand.NewPCG(seed, 26))
	regions := 2 + rng.IntN(4)
	if rng.IntN(6) == 0 {
		regions = 6 + rng.IntN(5)
	}
	window := time.Duration(2+rng.IntN(6)) * time.Second
	limits := []core.Limit{core.Per(1+rng.Int64N(50<<rng.IntN(3)), window).Named("limit")}
	if n := limits[0].Requests; rng.IntN(4) == 0 {
		limits = append(limits, core.Per(n+rng.Int64N(n), 2*window).Named("longer"))
	}
	w := newWorld(rng, regions, limits...)
	w.strict = strict
	if rng.IntN(4) == 0 { // most looks come too late for a request that waits for them
		w.had["late"]++
		for i := range w.ways {
			for j := range w.ways {
				if i != j {
					w.ways[i][j] += 300 * ms
				}
			}
		}
	}
	all := kinds(regions, limits[0].Requests)
	kind := all[seed%uint64(len(all))]
	w.had[kind.name]++
	w.had[fmt.Sprint(regions, " regions")]++
	w.had[fmt.Sprint(len(limits), " limits")]++
	w.run(kind, 3)
	return w
}
