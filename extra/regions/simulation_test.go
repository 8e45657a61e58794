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

// simulation has regions that serve one client: a server each, some processes, and the links between them.
type simulation struct {
	strict  bool
	alone   bool // each region counts for itself
	limits  []core.Limit
	servers []*remotetest.Server
	names   map[string]int
	leases  bool
	loses   int // one message in this number; 0 loses none, and all delays are constant

	mu      sync.Mutex // guards the rest
	rng     *rand.Rand
	delays  [][]time.Duration // from one region to another
	cut     [][]bool
	used    []admission
	longest time.Duration  // that a request took
	events  map[string]int // number of each event in the history
}

// admission is a request that was admitted, sent to the server and used there at true times. By region, polls are the
// latest ones that the process had the answer of.
type admission struct {
	region   int
	sent, at time.Time
	units    int64
	polls    []ran
}

// ran holds the times at which a poll was sent and ran, by the true time.
type ran struct{ sent, ran time.Time }

// newSimulation returns regions at random distances, whose clocks show other times and go at another pace.
func newSimulation(rng *rand.Rand, regions int, limits ...core.Limit) *simulation {
	w := &simulation{
		rng: rng, limits: limits, names: map[string]int{}, events: map[string]int{}, loses: 30,
		leases: rng.IntN(2) == 0,
	}
	for i := range regions {
		const years = 4 * 365 * 24 * time.Hour
		s := remotetest.NewServer(time.Duration(rng.Int64N(int64(years)))-years/2, limits...)
		s.Pace = (rng.Float64() - 0.5) / 1000
		w.servers = append(w.servers, s)
		w.names[fmt.Sprintf("region %02d", i)] = i
		w.cut = append(w.cut, make([]bool, regions))
		w.delays = append(w.delays, make([]time.Duration, regions))
		for j := range regions {
			w.delays[i][j] = 25*ms + time.Duration(rng.Int64N(int64(125*ms)))
		}
		w.delays[i][i] = ms / 10
	}
	return w
}

// eachWay changes the delay from each region to each other one.
func (w *simulation) eachWay(change func(delay time.Duration) time.Duration) {
	for i := range w.delays {
		for j := range w.delays {
			if i != j {
				w.delays[i][j] = change(w.delays[i][j])
			}
		}
	}
}

func (w *simulation) random(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *simulation) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events[what]++
}

// delayOf returns the delay of a message, or false if it is lost.
func (w *simulation) delayOf(from, to int) (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	way, cut := w.delays[from][to], w.cut[from][to]
	if w.loses == 0 {
		return way, !cut
	}
	lost := from != to && w.rng.IntN(w.loses) == 0
	if lost {
		w.events["lost"]++
	}
	if cut {
		w.events["sent into a cut"]++
	}
	if w.rng.IntN(10) == 0 { // so that later polls arrive before earlier ones
		way *= 4
	}
	return way + time.Duration(w.rng.Int64N(int64(way/4)+1)), !lost && !cut
}

// cuts cuts links between regions at random, in one direction or both, and restores them, until ctx ends.
func (w *simulation) cuts(ctx context.Context, every time.Duration) {
	for ctx.Err() == nil {
		from, to, both := w.random(len(w.cut)), w.random(len(w.cut)), w.random(3) > 0
		time.Sleep(time.Duration(w.random(int(every))))
		w.setCut(from, to, both, true)
		time.Sleep(time.Duration(w.random(int(2 * every))))
		w.setCut(from, to, both, false)
	}
}

func (w *simulation) setCut(from, to int, both, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[from][to] = cut
	w.cut[to][from] = cut && both
}

// bindFunc is a store.
type bindFunc func(core.Binding) (core.Ledger, error)

func (f bindFunc) Bind(b core.Binding) (core.Ledger, error) { return f(b) }

// wire is the link from a process to the server of a region, which decides by the limits.
type wire struct {
	*simulation
	from, to int
	limits   []core.Limit
	polls    *polls // of the process
}

// call runs a script at the server, and returns its true time when the reply is there.
func (k wire) call(ctx context.Context, run func()) (time.Time, error) {
	var ran time.Time
	done := make(chan struct{})
	go func() {
		way, arrives := k.delayOf(k.from, k.to)
		time.Sleep(way)
		if !arrives {
			return
		}
		ran = time.Now()
		run()
		way, arrives = k.delayOf(k.to, k.from)
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

// clientKey is the name of the client that the servers count.
const clientKey = "client"

// Take implements [core.Ledger]. Other names than the client's have just used up their limits.
func (k wire) Take(ctx context.Context, ask core.Ask) core.Decision {
	if ask.Key != clientKey {
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
	seen, sent := k.polls.seen(), time.Now()
	var d core.Decision // not a result: where the caller leaves, the server may still write it
	ran, err := k.call(ctx, func() { d = k.servers[k.to].Decide(k.servers[k.to].Now(), ask) })
	if err != nil {
		return core.Decision{Err: err}
	}
	if a, ok := ctx.Value(ranKey{}).(*atomic.Pointer[admission]); ok {
		a.Store(&admission{sent: sent, at: ran, polls: seen})
	}
	return d
}

// Usage implements [core.Ledger].
func (k wire) Usage(ctx context.Context, key string) ([]core.Usage, error) {
	var uses []core.Usage
	poll := ran{sent: time.Now()}
	var err error
	poll.ran, err = k.call(ctx, func() { uses = k.servers[k.to].Usage(k.servers[k.to].Now()) })
	if err != nil {
		return nil, err // the server may still write uses
	}
	if key == clientKey {
		k.polls.note(k.to, poll)
	}
	return uses, nil
}

func (k wire) Return(context.Context, core.Refund) (int64, error) { return 0, nil }

func (k wire) Reset(context.Context, string) error { return nil }

// polls holds the latest answered poll of a process, by region.
type polls struct {
	mu     sync.Mutex
	latest []ran
}

func (l *polls) note(region int, usage ran) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if usage.sent.After(l.latest[region].sent) {
		l.latest[region] = usage
	}
}

func (l *polls) seen() []ran {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.latest)
}

// process is a process of a region. It may crash and restart.
type process struct {
	*simulation
	region int
	ledger atomic.Pointer[core.Ledger]
}

// boot starts the process with an empty state.
func (p *process) boot() {
	c := Config{Stores: map[string]core.Store{}, Strict: p.strict}
	polls := &polls{latest: make([]ran, len(p.servers))}
	for name, i := range p.names {
		if i == p.region {
			c.Local = name
		} else if p.alone {
			continue
		}
		c.Stores[name] = bindFunc(func(b core.Binding) (core.Ledger, error) {
			return remotetest.Wrap(b, wire{p.simulation, p.region, i, b.Limits, polls}, p.leases), nil
		})
	}
	ledger := core.Must(core.Must(New(c)).Bind(core.Binding{Name: "api", Limits: p.limits}))
	p.ledger.Store(&ledger)
}

// Take sends a request to the process.
func (p *process) Take(ctx context.Context, ask core.Ask) core.Decision {
	return (*p.ledger.Load()).Take(ctx, ask)
}

// take makes a request and records the answer.
func (p *process) take(cost int64, timeout time.Duration) {
	var ran atomic.Pointer[admission]
	ctx := context.WithValue(context.Background(), ranKey{}, &ran)
	start := time.Now()
	d := p.Take(ctx, core.Ask{Key: clientKey, Cost: cost, Timeout: timeout})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.longest = max(p.longest, time.Since(start))
	switch {
	case d.Err != nil:
		p.events["failed"]++
		return
	case !d.Allowed:
		p.events["refused"]++
		return
	}
	p.events["admitted"]++
	a := &admission{at: time.Now()}
	if d.Source == core.SourceLeased {
		p.events["leased"]++
	} else {
		a = ran.Load()
	}
	a.region, a.units = p.region, cost
	if !p.alone {
		a.region = p.names[d.Region]
	}
	if a.region != p.region {
		p.events["admitted elsewhere"]++
	}
	p.used = append(p.used, *a)
}

// flood makes requests under 1,500 other names, each 5 times a second, for a time.
func (p *process) flood(lasts time.Duration) {
	for tick, start := 0, time.Now(); time.Since(start) < lasts; tick++ {
		for i := range 30 {
			ask := core.Ask{Key: fmt.Sprint("other ", tick%50*30+i), Cost: 1, Timeout: ms}
			if err := p.Take(context.Background(), ask).Err; err != nil {
				panic(err)
			}
		}
		time.Sleep(4 * ms)
	}
}

// traffic is the pattern of requests in a region, by the fraction of the history that has passed: a burst, and a rest
// in windows. The bursts of all processes are synced or not.
type traffic struct {
	name   string
	ask    func(region int, passed float64) (burst int, rest float64)
	synced bool
}

// trafficKinds returns the kinds of traffic of some regions under a limit.
func trafficKinds(regions int, n int64) []traffic {
	ok := int(n)/2 + 1
	steady := func(int, float64) (int, float64) { return 2 * ok, 0.6 }
	turns := func(region int, passed float64) (int, float64) {
		if int(passed*20)%regions != region {
			return 0, 0.05
		}
		return ok, 0.1
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
		{name: "bursts", ask: steady},
		{name: "bursts at once", ask: steady, synced: true},
		{name: "bursts in turn", ask: turns, synced: true},
		{name: "bursts after rests", synced: true, ask: func(int, float64) (int, float64) { return 2 * ok, 0.95 }},
		{name: "slow and fast", ask: func(region int, _ float64) (int, float64) {
			return 1, 0.5 * float64(1+9*region) / float64(n)
		}},
	}
}

// required are the events that all histories together must have.
var required = []string{
	"2 regions", "10 regions", "1 processes", "4 processes", "2 limits", "lost", "sent into a cut", "crashes",
	"one region", "spread", "sun", "bursts", "bursts at once", "bursts in turn", "bursts after rests", "slow and fast",
	"late", "admitted", "refused", "failed",
}

// run runs the traffic in all regions for some windows, with crashes and cuts.
func (w *simulation) run(kind traffic, windows int) {
	window, start := w.limits[0].Window, time.Now()
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
			p := &process{simulation: w, region: region}
			p.boot()
			go func() {
				for ctx.Err() == nil {
					burst, rest := kind.ask(region, float64(time.Since(start))/float64(whole))
					for range (burst + w.random(processes)) / processes {
						go p.take(1+int64(w.random(8)/7), 600*ms)
					}
					if w.random(100) == 0 {
						w.count("crashes")
						p.boot()
					}
					pause := time.Duration(rest*float64(window)) + 1
					if kind.synced {
						time.Sleep(pause - time.Since(start)%pause)
					} else {
						time.Sleep(pause/2 + time.Duration(w.random(int(pause))))
					}
				}
			}()
		}
	}
	settle()
}

// settle waits until no request is in flight.
func settle() {
	time.Sleep(time.Hour)
	synctest.Wait()
}

// randomSimulation runs a random history and returns it.
func randomSimulation(seed uint64, strict bool) *simulation {
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
	w := newSimulation(rng, regions, limits...)
	w.strict = strict
	if rng.IntN(4) == 0 { // most polls come too late for a request that waits for them
		w.events["late"]++
		w.eachWay(func(delay time.Duration) time.Duration { return delay + 300*ms })
	}
	all := trafficKinds(regions, limits[0].Requests)
	kind := all[seed%uint64(len(all))]
	w.events[kind.name]++
	w.events[fmt.Sprint(regions, " regions")]++
	w.events[fmt.Sprint(len(limits), " limits")]++
	w.run(kind, 3)
	return w
}
