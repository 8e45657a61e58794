//go:build !short

package regions

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// globe is three regions with real servers, and processes in each.
type globe struct {
	*testing.T
	names   []string
	limit   core.Limit
	servers []*redistest.Server
	ahead   []time.Duration      // by region: of the server's clock
	ways    [3][3]*redistest.Way // from region, to region
}

// newGlobe returns regions between which a message takes from so many milliseconds to so many.
func newGlobe(t *testing.T, limit core.Limit, from, to int) *globe {
	g := &globe{T: t, names: []string{"ap", "eu", "us"}, limit: limit, ahead: []time.Duration{0, time.Hour, -time.Hour}}
	delay := func() time.Duration { return time.Duration(from+rand.IntN(to-from+1)) * ms }
	for region, ahead := range g.ahead {
		s := redistest.StartAhead(t, ahead)
		g.servers = append(g.servers, s)
		for from := range g.ways {
			g.ways[from][region] = redistest.StartWay(t, s.Addr(), delay)
		}
	}
	return g
}

// station is a process of a mode in a region.
type station struct {
	*globe
	store   *Store
	limiter *core.Limiter

	mu                   sync.Mutex
	told                 []admission // by the true time
	refused, failed, far int
}

// stations returns a station in each region.
func (g *globe) stations(mode string, timeout time.Duration) (all []*station) {
	for here := range g.names {
		s := &station{globe: g}
		stores := map[string]core.Store{}
		for to, name := range g.names {
			addr := g.servers[to].Addr()
			if here != to {
				addr = g.ways[here][to].Addr()
			}
			rdb := redis.NewClient(&redis.Options{Addr: addr})
			g.Cleanup(func() { rdb.Close() })
			stores[name] = redisstore.New(rdb)
		}
		s.store = newStore(g, Config{Here: g.names[here], Stores: stores, Strict: mode == "strict"})
		s.limiter = core.Must(core.New(core.Config{
			Name: mode, Store: s.store, Limits: []core.Limit{g.limit}, Timeout: timeout,
			OnStoreError: core.FailClosed, Observer: core.Silent,
		}))
		all = append(all, s)
	}
	return all
}

// seen returns, by region, when the latest look was sent that the station has learned from. A decision that begins
// afterwards is by that look or a later one.
func (s *station) seen() []ran {
	at := make([]ran, len(s.names))
	if s.store.table == nil {
		return at
	}
	s.store.table.mu.Lock()
	defer s.store.table.mu.Unlock()
	for _, c := range s.store.table.clients {
		for i, k := range c.looks {
			if k.sent > 0 {
				at[(s.store.here+1+i)%len(s.names)].sent = s.store.epoch.Add(k.sent)
			}
		}
	}
	return at
}

// take asks once, and notes the answer.
func (s *station) take() {
	looks := s.seen()
	d := s.limiter.Allow(context.Background(), served)
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.Err != nil {
		if s.failed++; d.Allowed {
			s.Errorf("the policy is FailClosed, and %+v", d)
		}
		return
	}
	region := slices.Index(s.names, d.Region)
	at := d.At.Add(-s.ahead[region])
	if time.Since(at).Abs() > time.Minute || d.RetryAfter > max(s.limit.Window, silence) {
		s.Errorf("by the clock of region %s, which is ahead by %v: %+v", d.Region, s.ahead[region], d)
	}
	if !d.Allowed {
		s.refused++
		return
	}
	s.told = append(s.told, admission{region: region, at: at, units: 1, looks: looks})
	if region != s.store.here {
		s.far++
	}
}

// counts returns how often stations got which answer.
func counts(stations []*station) (told, refused, failed, far int) {
	for _, s := range stations {
		s.mu.Lock()
		told, refused, failed, far = told+len(s.told), refused+s.refused, failed+s.failed, far+s.far
		s.mu.Unlock()
	}
	return told, refused, failed, far
}

// cutOff holds all ways from and to a region, or lets them through.
func (g *globe) cutOff(region int, held bool) {
	for other := range g.ways {
		g.ways[region][other].Hold(held, held)
		g.ways[other][region].Hold(held, held)
	}
}

// disturb holds ways in both directions or one, and loses connections, at random.
func (g *globe) disturb(rng *rand.Rand, lasts time.Duration) {
	for began := time.Now(); time.Since(began) < lasts; time.Sleep(time.Duration(rng.IntN(300)) * ms) {
		from := rng.IntN(3)
		way := g.ways[from][(from+1+rng.IntN(2))%3]
		switch kind := rng.IntN(8); kind {
		case 0:
			way.Lose()
		case 1, 2, 3:
			way.Hold(kind != 1, kind != 2)
		default:
			way.Hold(false, false)
		}
	}
	for region := range g.ways {
		g.cutOff(region, false)
	}
}

// TestRegions: three servers, of which one is an hour ahead and one an hour behind, and messages that take 50 to 300
// ms, are held in one direction or both, and get lost. Strict regions never admit more than the limit in a window, and
// eventual ones no more than Theorem E allows.
func TestRegions(t *testing.T) {
	t.Parallel()
	g := newGlobe(t, core.Per(61, time.Second), 50, 300)
	strict, eventual := g.stations("strict", 2*time.Second), g.stations("eventual", 2*time.Second)
	lasts := 2 * time.Second
	if *long {
		lasts = 30 * time.Second
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i, s := range slices.Concat(strict, eventual) {
		group.Go(func() {
			for rng := rand.New(rand.NewPCG(uint64(i), 26)); ctx.Err() == nil; time.Sleep(time.Duration(rng.IntN(150)) * ms) {
				for range 1 + rng.IntN(15) {
					group.Go(s.take)
				}
			}
		})
	}
	redistest.WaitFor(t, "two windows full, a refused one, and strict regions that ask others", func() error {
		told, refused, _, far := counts(strict)
		others, without, _, none := counts(eventual)
		if min(told, others) < 122 || min(refused, without) < 61 || far == 0 || none > 0 {
			return fmt.Errorf("strict: %d, %d refused, %d far; eventual: %d, %d, %d", told, refused, far, others, without, none)
		}
		return nil
	})
	g.cutOff(2, true)
	redistest.WaitFor(t, "a region to be silent", func() error {
		for _, s := range eventual[:2] {
			if s.store.Stats().Regions[2].SilentSince.IsZero() {
				return fmt.Errorf("region %d still sees it", s.store.here)
			}
		}
		return nil
	})
	g.cutOff(2, false)
	g.disturb(rand.New(rand.NewPCG(seed, 0)), lasts)
	cancel()
	group.Wait()

	g.judge("strict", strict, func(a admission, region int) time.Time { return a.at })
	if known := g.judge("eventual", eventual, func(a admission, region int) time.Time {
		return a.looks[region].sent
	}); known == 0 {
		t.Error("no eventual decision was by what others held")
	}
}

// judge holds each admission of a mode against the limit: its region must have known what each other one had admitted
// until a time. It returns how many admissions were by such.
func (g *globe) judge(mode string, stations []*station, until func(admission, int) time.Time) (by int) {
	g.Helper()
	var all []admission
	for _, s := range stations {
		all = append(all, s.told...)
	}
	logs := logsOf(all, len(g.names))
	for _, a := range all {
		var known int64
		begin := a.at.Add(-g.limit.Window)
		for region := range logs {
			if region != a.region {
				known += logs[region].units(begin, until(a, region))
			}
		}
		own := logs[a.region].units(begin, a.at)
		if own+known > g.limit.Requests {
			g.Errorf("region %s admitted at %v as number %d here, while %d were known of elsewhere",
				g.names[a.region], a.at.Format(time.StampMicro), own, known)
		}
		by += int(min(known, 1))
	}
	told, refused, failed, far := counts(stations)
	g.Logf("proved: %s, %s: %d admitted, %d of them by what others held, %d far, %d refused, %d failed",
		g.Name(), mode, told, by, far, refused, failed)
	return by
}
