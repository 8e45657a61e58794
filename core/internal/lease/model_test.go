package lease

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/fakeserver"
	"github.com/sashlimit/sash/core/storetest"
)

// actor is a process of a random history. It leases or not, crashes, has a link of its own, and a clock that shows
// another time and goes at another pace than the server's.
type actor struct {
	mu     sync.Mutex // guards rng and counts
	rng    *rand.Rand
	counts core.Ledger
	link   fakeserver.Link
	terms  Terms
	leases bool
	slow   time.Duration // longest usual delay, one way
}

func newActor(seed uint64, s *fakeserver.Server) *actor {
	a := &actor{rng: rand.New(rand.NewPCG(seed, 22))}
	a.slow = 100 * time.Microsecond << a.rng.IntN(9)
	a.link = fakeserver.Link{
		Server: s,
		Delay: func() time.Duration {
			if a.random(10) == 0 {
				return a.random(10 * a.slow)
			}
			return a.random(a.slow)
		},
		LosesReply: func() bool { return a.random(30) == 0 },
	}
	a.terms = Terms{Lifetime: time.Duration(1+a.rng.IntN(40)) * time.Millisecond, Size: 2 + a.rng.Int64N(20)}
	a.counts, a.leases = a.link, a.rng.IntN(4) > 0
	if a.leases {
		a.boot()
	}
	return a
}

func (a *actor) random(n time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Duration(a.rng.Int64N(int64(n)))
}

// boot starts the process anew: what it held is lost. a.mu must be held.
func (a *actor) boot() {
	l, _ := process(a.link, a.terms)
	epoch, offset := time.Now(), time.Duration(a.rng.Int64N(int64(365*24*time.Hour)))
	drift := (a.rng.Float64() - 0.5) / 1000
	l.table.now = func() time.Time {
		now := time.Now()
		return now.Add(offset + time.Duration(float64(now.Sub(epoch))*drift))
	}
	a.counts = l
}

// current returns the process, which may have crashed.
func (a *actor) current() core.Ledger {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.leases && a.rng.IntN(60) == 0 {
		a.boot()
	}
	return a.counts
}

// act makes requests of random costs, some with little time.
func (a *actor) act(h *history, busy time.Duration) {
	for range 22 {
		cost := int64(1)
		if a.random(4) == 0 {
			cost += int64(a.random(3))
		}
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if a.random(5) == 0 {
			ctx, cancel = context.WithTimeout(ctx, a.random(3*a.slow)+1)
		}
		h.take(ctx, a.current(), cost)
		cancel()
		time.Sleep(a.random(busy))
	}
}

// randomHistory runs some processes on one client.
func randomHistory(seed uint64) *history {
	rng := rand.New(rand.NewPCG(seed, 21))
	limits := []core.Limit{core.Per(10+rng.Int64N(60), time.Duration(20+rng.IntN(100))*time.Millisecond)}
	if rng.IntN(3) == 0 {
		window := time.Duration(50+rng.IntN(200)) * time.Millisecond
		limits = append(limits, core.Per(20+rng.Int64N(100), window).Named("b"))
	}
	h := &history{server: fakeserver.New(time.Duration(rng.Int64N(int64(24*time.Hour))), limits...)}
	// For their windows, these leases are longer than WithLease makes them.
	h.server.Client.AllowedLead = time.Hour.Microseconds()
	var group sync.WaitGroup
	processes := 2 + rng.IntN(4)
	for range processes {
		a := newActor(rng.Uint64(), h.server)
		h.longest = max(h.longest, a.terms.Lifetime)
		busy := 200 * time.Microsecond << a.random(6)
		for range 1 + a.random(3) {
			group.Go(func() { a.act(h, busy) })
		}
	}
	group.Wait()
	time.Sleep(time.Hour) // for the scripts whose callers have left
	return h
}

// TestModel: in thousands of histories no window holds too many, and no request is refused earlier than leases
// explain.
func TestModel(t *testing.T) { testModel(t, 0) }

// testModel goes through the histories of the selected quarters of all seeds.
func testModel(t *testing.T, selected ...uint64) {
	const histories, parts = 2000, 4
	for _, part := range selected {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			var local, refused, failures, used int
			for seed := part; seed < histories; seed += parts {
				synctest.Test(t, func(t *testing.T) {
					h := randomHistory(seed)
					if err := h.check(); err != nil {
						t.Fatalf("seed %d, limits %v: %v", seed, h.server.Limits, err)
					}
					local += h.local
					refused += len(h.refused)
					failures += h.failures
					used += len(h.byUse)
				})
			}
			t.Logf("%d admitted, %d decided by leases alone, %d refused, %d failed", used, local, refused, failures)
			if local < used/10 || refused < used/10 || failures < used/100 {
				t.Error("too one-sided to prove anything")
			}
		})
	}
}

// history records the answers that processes got, and the times at which they used them.
type history struct {
	server      *fakeserver.Server
	longest     time.Duration // lease
	mu          sync.Mutex
	byUse       []storetest.Outcome // by when it was used, on the server's clock
	byAt        []storetest.Outcome // by Decision.At
	refused     []fakeserver.Charge // when, and what
	local       int
	wrongSource int // of the decisions, those that say wrongly whether the server made them
	failures    int
}

// take asks once and writes down the outcome.
func (h *history) take(ctx context.Context, c core.Ledger, cost int64) core.Decision {
	var ran atomic.Int64
	d := c.Take(fakeserver.WithRan(ctx, &ran), core.Ask{Key: "client", Cost: cost})
	at := ran.Load()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case d.Err != nil:
		h.failures++
		return d
	case at == 0: // without asking
		at = h.server.Now()
		h.local++
		if d.Source != core.SourceLeased {
			h.wrongSource++
		}
	case d.Source != core.SourceCounted:
		h.wrongSource++
	}
	if d.Allowed {
		h.byUse = append(h.byUse, storetest.Outcome{At: time.UnixMicro(at), Allowed: true, Cost: cost})
		h.byAt = append(h.byAt, storetest.Outcome{At: d.At, Allowed: true, Cost: cost})
	} else {
		h.refused = append(h.refused, fakeserver.Charge{Taken: at, Units: cost})
	}
	return d
}

// check holds a history against the promise. It waits for the scripts of callers that have left.
func (h *history) check() error {
	synctest.Wait()
	if h.wrongSource > 0 {
		return fmt.Errorf("%d decisions say wrongly whether they are from a lease", h.wrongSource)
	}
	for by, outcomes := range map[string][]storetest.Outcome{"the time of use": h.byUse, "Decision.At": h.byAt} {
		if err := storetest.CheckLogs(outcomes, h.server.Limits...); err != nil {
			return fmt.Errorf("by %s: %w", by, err)
		}
	}
	for _, r := range h.refused {
		if !slices.ContainsFunc(h.server.Limits, func(l core.Limit) bool {
			// What was taken is what was admitted, and what has not been spent.
			taken := int64(0)
			for _, c := range h.server.Charges {
				if c.Taken <= r.Taken && c.Taken > r.Taken-(l.Window+h.longest).Microseconds() {
					taken += c.Units
				}
			}
			return taken+r.Units > l.Requests
		}) {
			return fmt.Errorf("a cost of %d was refused at %d, too early", r.Units, r.Taken)
		}
	}
	return nil
}
