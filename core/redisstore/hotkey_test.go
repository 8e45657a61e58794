package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/fakeserver"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/internal/redistest"
)

// scriptsRun is how many scripts the server has run.
func scriptsRun(t testing.TB, rdb *redis.Client) (n int) {
	for line := range strings.SplitSeq(rdb.Info(ctx, "commandstats").Val(), "\r\n") {
		var calls int
		for _, command := range []string{"evalsha", "eval"} {
			if _, err := fmt.Sscanf(line, "cmdstat_"+command+":calls=%d,", &calls); err == nil {
				n += calls
			}
		}
	}
	return n
}

// recorded writes down what leases and single requests have charged.
type recorded struct {
	core.Counts
	charges *charges
}

// charges are by when they are counted. mu guards all.
type charges struct {
	mu  sync.Mutex
	all []fakeserver.Charge
}

func (r *recorded) Take(ctx context.Context, ask core.Ask) (core.Decision, error) {
	d, err := r.Counts.Take(ctx, ask)
	if c := r.charges; err == nil && d.Allowed {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all = append(c.all, fakeserver.Charge{Stamp: d.At.UnixMicro(), Units: ask.Cost})
	}
	return d, err
}

// taken returns how many units were charged, and a function that returns how many of them are stamped in (from, to],
// in microseconds.
func (c *charges) taken() (units int64, between func(from, to int64) int64) {
	slices.SortFunc(c.all, func(a, b fakeserver.Charge) int { return cmp.Compare(a.Stamp, b.Stamp) })
	totals := []int64{0}
	for _, charge := range c.all {
		units += charge.Units
		totals = append(totals, units)
	}
	before := func(stamp int64) int64 {
		return totals[sort.Search(len(c.all), func(i int) bool { return c.all[i].Stamp > stamp })]
	}
	return units, func(from, to int64) int64 { return before(to) - before(from) }
}

// TestLeaseHotKey: four stores at full speed on one client. No window holds too
// many, no refusal is early by more than leases explain, and Redis hears little
// of it.
func TestLeaseHotKey(t *testing.T) {
	for name, c := range map[string]struct {
		limit     core.Limit
		lifetime  time.Duration
		perScript float64 // units that a script admits at least; 0: not judged
	}{
		// No lease ends before it is spent, however busy the machine is. Without leases
		// a script admits a batch: some four units.
		"wide": {core.Per(10_000_000, time.Minute).Named("a"), 6 * time.Second, 40},
		// How much of a short lease is spent depends on the machine: what is saved under
		// a limit that is spent is judged on a clock, by TestLeaseRateSaturated.
		"narrow": {core.Per(10_000, 400*time.Millisecond).Named("a"), 40 * time.Millisecond, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if n := hotKey(t, c.limit, c.lifetime); n < c.perScript {
				t.Errorf("a script admits %.1f units, want at least %v", n, c.perScript)
			}
		})
	}
}

// outcomes are what the callers of a hot key were told. mu guards both.
type outcomes struct {
	mu                sync.Mutex
	admitted, refused []storetest.Outcome
}

// hotKey returns how many units a script has admitted.
func hotKey(t *testing.T, limit core.Limit, lifetime time.Duration) (perScript float64) {
	server := redistest.Start(t)
	var told outcomes
	var charges charges
	var group sync.WaitGroup
	for range 4 {
		counts := bindRecorded(t, New(server.Client(t), WithLease(1000, lifetime)), limit, &charges)
		end := time.Now().Add(400 * time.Millisecond)
		for range 8 {
			group.Go(func() { told.flood(t, counts, end) })
		}
	}
	group.Wait()
	spent := int64(0)
	for _, o := range told.admitted {
		spent += o.Cost
	}
	told.check(t, limit, lifetime, &charges)
	n := scriptsRun(t, server.Client(t))
	t.Logf("%d admitted, %d units; at least %d refused; %d scripts", len(told.admitted), spent, len(told.refused), n)
	return float64(spent) / float64(n)
}

// bindRecorded is Bind with the charges of leases written down.
func bindRecorded(t *testing.T, s *Store, limit core.Limit, charges *charges) core.Counts {
	t.Helper()
	rule := core.Rule{Name: "test", Limits: []core.Limit{limit}}
	c, err := s.Bind(rule)
	if err != nil {
		t.Fatal(err)
	}
	if s.leases == nil {
		return c
	}
	return s.leases.Wrap(&recorded{s.refusals.Wrap(s.newLedger(rule)), charges}, rule.Limits)
}

// flood asks until the given time, and at least a thousand times, and writes down what it is told: of the refusals,
// some.
func (o *outcomes) flood(t *testing.T, counts core.Counts, end time.Time) {
	const atLeast, refusals = 1000, 2000
	var yes, no []storetest.Outcome
	for i := 0; i < atLeast || i%64 > 0 || time.Now().Before(end); i++ {
		cost := int64(1 + i%40/39*20)
		d, err := counts.Take(ctx, core.Ask{Key: "client", Cost: cost})
		if err != nil {
			t.Error(err)
			return
		}
		if o := (storetest.Outcome{At: d.At, Allowed: d.Allowed, Cost: cost}); d.Allowed {
			yes = append(yes, o)
		} else if len(no) < refusals {
			no = append(no, o)
		} else {
			no[i%len(no)] = o
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.admitted, o.refused = append(o.admitted, yes...), append(o.refused, no...)
}

// check holds what callers were told with leases against what was charged. A request is refused only if what the last
// W + D have taken leaves no room: stamps are ahead of the taking by D at most.
func (o *outcomes) check(t *testing.T, limit core.Limit, lifetime time.Duration, charges *charges) {
	t.Helper()
	if err := storetest.CheckLogs(o.admitted, limit); err != nil {
		t.Error(err)
	}
	taken, between := charges.taken()
	for _, r := range o.refused {
		at := r.At.UnixMicro()
		n := between(at-limit.Window.Microseconds(), at+lifetime.Microseconds())
		if n+r.Cost <= limit.Requests {
			t.Fatalf("a cost of %d was refused while %d of %d were taken", r.Cost, n, limit.Requests)
		}
	}
	spent := int64(0)
	for _, a := range o.admitted {
		spent += a.Cost
	}
	if taken < spent {
		t.Errorf("%d units admitted, %d charged", spent, taken)
	}
}
