package regions

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/internal/redistest"
)

// globe is three regions with real servers, and in each a process of each mode. What was admitted is judged by what
// the servers have written.
type globe struct {
	*testing.T
	names   []string
	limit   core.Limit
	ahead   []time.Duration // by region: of the server's clock
	written []written       // by region

	strict, eventual []*station
}

// newGlobe returns regions that process i of a mode reaches by connect(i, region).
func newGlobe(t *testing.T, limit core.Limit, connect func(from, to int) redis.UniversalClient) *globe {
	g := &globe{T: t, names: []string{"ap", "eu", "us"}, limit: limit, ahead: make([]time.Duration, 3)}
	for here := range g.names {
		g.strict = append(g.strict, g.newStation(here, "strict", connect))
		g.eventual = append(g.eventual, g.newStation(here, "eventual", connect))
	}
	return g
}

// written is what a server writes.
type written struct {
	*testing.T
	file  string
	ahead time.Duration
}

// writtenBy returns what a server writes from now on.
func writtenBy(t *testing.T, server *redistest.Server, ahead time.Duration) written {
	return written{t, server.Append(t), ahead}
}

// of returns the units that the logs of a rule have counted, by the true time: one for each entry that was pushed. An
// entry has a stamp of six bytes, and a total of three; see format.go of redisstore.
func (w written) of(rule string) (all []storetest.Outcome) {
	text, err := os.ReadFile(w.file)
	if err != nil {
		w.Error(err)
	}
	now := time.Now().Add(w.ahead).UnixMicro()
	for r := bufio.NewReader(bytes.NewReader(text)); ; {
		command, _, err := redistest.ReadCommand(r)
		switch {
		case err != nil: // the last one may not be whole
			return all
		case command[0] != "RPUSH" || !strings.HasPrefix(command[1], "sash:{"+rule+"//client}:"):
			continue
		case len(command[2]) != 9:
			w.Errorf("the entry %q of %s: want a cost of 1", command[2], command[1])
			return all
		}
		var stamp int64
		for _, b := range []byte(command[2][:6]) {
			stamp = stamp<<8 | int64(b)
		}
		at := time.UnixMicro(now - (now-stamp)<<16>>16).Add(-w.ahead)
		all = append(all, storetest.Outcome{At: at, Allowed: true, Cost: 1})
	}
}

// station is a process of a mode in a region.
type station struct {
	*globe
	mode    string
	store   *Store
	limiter *core.Limiter

	mu                   sync.Mutex
	looks                [][]ran     // by region; sent is a time before they were
	told                 []admission // by the true time
	refused, failed, far int
}

func (g *globe) newStation(here int, mode string, connect func(from, to int) redis.UniversalClient) *station {
	s := &station{globe: g, mode: mode, looks: make([][]ran, len(g.names))}
	stores := map[string]core.Store{}
	for to, name := range g.names {
		stores[name] = noting{redisstore.New(connect(here, to)), s, to}
	}
	s.store = newStore(g, Config{Here: g.names[here], Stores: stores, Strict: mode == "strict"})
	s.limiter = core.Must(core.New(core.Config{
		Name: mode, Store: s.store, Limits: []core.Limit{g.limit}, Timeout: 2 * time.Second,
		OnStoreError: core.FailClosed, Observer: core.Silent,
	}))
	return s
}

// noting is the store of a region, which notes when looks ran there.
type noting struct {
	core.Store
	station *station
	region  int
}

func (n noting) Bind(b core.Binding) (core.Ledger, error) {
	l, err := n.Store.Bind(b)
	return notingLedger{l, n}, err
}

type notingLedger struct {
	core.Ledger
	noting
}

func (n notingLedger) Usage(ctx context.Context, key string) ([]core.Usage, error) {
	began := time.Now()
	uses, err := n.Ledger.Usage(ctx, key)
	if err == nil && key == served {
		n.station.mu.Lock()
		defer n.station.mu.Unlock()
		at := uses[0].At.Add(-n.station.ahead[n.region])
		n.station.looks[n.region] = append(n.station.looks[n.region], ran{sent: began, ran: at, came: time.Now()})
	}
	return uses, err
}

// seen returns, by region, when the latest look ran that the station has learned from. A decision that begins
// afterwards is by that look or a later one.
func (s *station) seen() []ran {
	at := make([]ran, len(s.names))
	if s.store.table == nil {
		return at
	}
	s.store.table.mu.Lock()
	defer s.store.table.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.store.table.clients {
		for i, k := range c.looks {
			if region := (s.store.here + 1 + i) % len(s.names); k.sent > 0 {
				at[region] = learned(s.looks[region], s.store.epoch.Add(k.sent))
			}
		}
	}
	return at
}

// learned returns the look that began first after it was sent.
func learned(looks []ran, sent time.Time) ran {
	var first ran
	for _, l := range looks {
		if !l.sent.Before(sent) && (first.sent.IsZero() || l.sent.Before(first.sent)) {
			first = l
		}
	}
	return first
}

// load asks in bursts until ctx ends.
func (s *station) load(ctx context.Context, rng *rand.Rand) {
	var group sync.WaitGroup
	defer group.Wait()
	for ctx.Err() == nil {
		for range 1 + rng.IntN(15) {
			group.Go(s.take)
		}
		time.Sleep(time.Duration(rng.IntN(150)) * time.Millisecond)
	}
}

// take asks once, and notes what it is told.
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
	s.told = append(s.told, admission{region: region, at: at, units: 1, looks: looks, told: time.Now()})
	if region != s.store.here {
		s.far++
	}
}

// during has all stations ask while do runs.
func (g *globe) during(do func()) {
	ctx, cancel := context.WithCancel(g.Context())
	var group sync.WaitGroup
	for i, s := range slices.Concat(g.strict, g.eventual) {
		group.Go(func() { s.load(ctx, rand.New(rand.NewPCG(uint64(i), 26))) })
	}
	do()
	cancel()
	group.Wait()
}

// waitForEnough waits until both modes have admitted two windows full and refused one, and strict regions have asked
// others.
func (g *globe) waitForEnough() {
	g.Helper()
	redistest.WaitFor(g, "enough decisions", func() error {
		n := int(g.limit.Requests)
		for _, stations := range [][]*station{g.strict, g.eventual} {
			strict := stations[0].store.table == nil
			if told, refused, _, far := counts(stations); told < 2*n || refused < n || strict != (far > 0) {
				return fmt.Errorf("strict %v: %d admitted, %d by others, %d refused", strict, told, far, refused)
			}
		}
		return nil
	})
}

// counts returns how often stations were told something.
func counts(stations []*station) (told, refused, failed, far int) {
	for _, s := range stations {
		s.mu.Lock()
		told, refused, failed, far = told+len(s.told), refused+s.refused, failed+s.failed, far+s.far
		s.mu.Unlock()
	}
	return told, refused, failed, far
}

// judge holds what the servers have written against both theorems. lost is how many units a failover has lost of each
// mode: they are no longer written.
func (g *globe) judge(lost map[string]int) {
	g.Helper()
	for mode, stations := range map[string][]*station{"strict": g.strict, "eventual": g.eventual} {
		logs, merged := g.merge(mode)
		if err := storetest.CheckLogs(merged, g.limit); mode == "strict" && err != nil {
			g.Error(err)
		}
		written := map[admissionKey]int{}
		for region, log := range logs {
			for _, at := range log.at {
				written[admissionKey{region, at.UnixMicro()}]++
			}
		}
		unwritten, known := 0, 0
		for _, s := range stations {
			for _, a := range s.told {
				key := admissionKey{a.region, a.at.UnixMicro()}
				if written[key]--; written[key] < 0 {
					unwritten++
				}
				if mode == "eventual" {
					known += g.judgeOne(logs, a)
				}
			}
		}
		told, refused, failed, far := counts(stations)
		g.Logf("proved: three servers, %s: %d written, %d admitted, %d of them by what others held, %d far, "+
			"%d refused, %d failed", mode, len(merged), told, known, far, refused, failed)
		if unwritten > lost[mode] {
			g.Errorf("%s: %d admissions stand in no server's log, and %d were lost", mode, unwritten, lost[mode])
		}
		if mode == "eventual" && known == 0 {
			g.Error("no eventual decision was by what others held")
		}
	}
}

// merge returns what the servers have written of a mode, by region and merged.
func (g *globe) merge(mode string) (logs []ledgerOf, merged []storetest.Outcome) {
	for _, w := range g.written {
		units := w.of(mode)
		slices.SortFunc(units, func(a, b storetest.Outcome) int { return a.At.Compare(b.At) })
		log := ledgerOf{totals: []int64{0}}
		for i, u := range units {
			log.at, log.totals = append(log.at, u.At), append(log.totals, int64(i+1))
		}
		logs, merged = append(logs, log), append(merged, units...)
	}
	return logs, merged
}

// admissionKey is where and when an admission was counted, in microseconds.
type admissionKey struct {
	region int
	at     int64
}

// judgeOne holds an eventual admission against Theorem E, and returns 1 if others held something then.
func (g *globe) judgeOne(logs []ledgerOf, a admission) int {
	begin := a.at.Add(-g.limit.Window)
	own, known := logs[a.region].units(begin, a.at), int64(0)
	for region := range logs {
		if region != a.region {
			known += logs[region].units(begin, a.looks[region].ran)
		}
	}
	if own+known > g.limit.Requests {
		g.Errorf("region %s admitted at %v as number %d here, while %d were known of elsewhere",
			g.names[a.region], a.at.Format(time.StampMicro), own, known)
	}
	return int(min(known, 1))
}
