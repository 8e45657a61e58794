package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/internal/redistest"
)

// logServer is what Redis does, for one client, in a bubble of synctest.
type logServer struct {
	limits    []core.Limit
	skew      time.Duration // of its clock
	allowance int64         // how far ahead of its clock anything may be counted

	mu      sync.Mutex
	logs    []window.Log
	charges []charged
	scripts int
	rewound int // logs that were too far ahead
}

// charged is what one script has counted.
type charged struct {
	taken, stamp, units int64
}

func newLogServer(skew time.Duration, limits ...core.Limit) *logServer {
	shortest := limits[0].Window
	for _, l := range limits {
		shortest = min(shortest, l.Window)
	}
	allowance := window.Allowance(shortest.Microseconds())
	return &logServer{limits: limits, skew: skew, allowance: allowance, logs: make([]window.Log, len(limits))}
}

func (s *logServer) now() int64 { return time.Now().Add(s.skew).UnixMicro() }

// decide is what the script does; TestLeaseScript compares the two.
func (s *logServer) decide(now, cost int64, charge bool, ahead time.Duration) core.Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts++
	stamp := now + ahead.Microseconds()
	far := make([]bool, len(s.logs))
	for i := range s.logs {
		if newest := s.logs[i].Newest(); newest-now > s.allowance {
			far[i] = true
		} else {
			stamp = max(stamp, newest)
		}
	}
	var verdict window.Verdict
	var binding core.Limit
	for i, l := range s.limits {
		limit := window.Limit{N: l.Requests, W: l.Window.Microseconds()}
		facts := s.logs[i].Facts(limit, now, cost)
		if far[i] {
			facts = facts.Rewound(now)
			if charge && cost > 0 {
				s.logs[i].Rewind(now)
				s.rewound++
			}
		}
		v := facts.Decide(limit, now, stamp, cost)
		if i == 0 || v.Binds(verdict) {
			verdict, binding = v, l
		}
	}
	d := core.Decision{Allowed: verdict.Admitted, Source: core.Counted, Limit: binding, Remaining: verdict.Remaining,
		ResetAfter: window.Duration(verdict.ResetAfter), RetryAfter: window.Duration(verdict.RetryAfter), At: time.UnixMicro(now)}
	if !charge || cost == 0 || !d.Allowed {
		return d
	}
	d.At = time.UnixMicro(stamp)
	s.charges = append(s.charges, charged{now, stamp, cost})
	for i, l := range s.limits {
		s.logs[i].Expire(now - l.Window.Microseconds())
		s.logs[i].Push(stamp, cost)
	}
	return d
}

// link is how a process reaches the server: it takes time, replies get lost.
type link struct {
	server *logServer
	delay  func() time.Duration
	loses  func() bool
}

var errLost = errors.New("the reply was lost")

// executed is the context key of when a call's script ran last.
type executed struct{}

func (k link) call(ctx context.Context, cost int64, charge bool, ahead time.Duration) (core.Decision, error) {
	type answer struct {
		d   core.Decision
		at  int64
		err error
	}
	done := make(chan answer, 1)
	there, back, lost := k.delay(), k.delay(), k.loses()
	go func() {
		time.Sleep(there)
		now := k.server.now()
		d := k.server.decide(now, cost, charge, ahead)
		time.Sleep(back)
		if lost {
			done <- answer{err: errLost}
			return
		}
		done <- answer{d: d, at: now}
	}()
	select {
	case a := <-done:
		if at, ok := ctx.Value(executed{}).(*atomic.Int64); ok && a.err == nil {
			at.Store(a.at)
		}
		return a.d, a.err
	case <-ctx.Done():
		return core.Decision{}, context.Cause(ctx)
	}
}

func (k link) Take(ctx context.Context, ask core.Ask) (core.Decision, error) {
	return k.call(ctx, ask.Cost, !ask.Peek, 0)
}

func (k link) take(ctx context.Context, deadline time.Time, _ string, cost int64, charge bool) (core.Decision, error) {
	ctx, cancel := withDeadline(ctx, deadline)
	defer cancel()
	return k.call(ctx, cost, charge, 0)
}

func (link) find(string, int64, *core.Decision) (found, asks bool) { return false, false }

func (k link) Reset(context.Context, string) error { return nil }

// process is a process that leases, with a clock of its own.
func process(k link, size int64, lifetime, offset time.Duration, drift float64) *leased {
	epoch := time.Now()
	table := newLeases(size, lifetime)
	table.now = func() time.Time {
		now := time.Now()
		return now.Add(offset + time.Duration(float64(now.Sub(epoch))*drift))
	}
	return &leased{asker: k, table: table, size: size, lifetime: lifetime,
		ahead: func(ctx context.Context, deadline time.Time, _ string, cost int64) (core.Decision, error) {
			ctx, cancel := withDeadline(ctx, deadline)
			defer cancel()
			return k.call(ctx, cost, true, lifetime)
		}}
}

// history is what processes were told, and when they acted on it.
type history struct {
	server   *logServer
	longest  time.Duration // lease
	mu       sync.Mutex
	used     []storetest.Outcome // by when it was used, on the server's clock
	told     []storetest.Outcome // by Decision.At
	refused  []charged           // when, and what
	local    int
	unsaid   int // of the decisions, those that say wrongly whether Redis made them
	failures int
}

// take asks once and writes down the outcome.
func (h *history) take(ctx context.Context, c core.Counts, cost int64) core.Decision {
	var ran atomic.Int64
	d, err := c.Take(context.WithValue(ctx, executed{}, &ran), core.Ask{Key: "client", Cost: cost})
	at := ran.Load()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err != nil:
		h.failures++
		return d
	case at == 0: // without asking
		at = h.server.now()
		h.local++
		if d.Source != core.Leased {
			h.unsaid++
		}
	case d.Source != core.Counted:
		h.unsaid++
	}
	if d.Allowed {
		h.used = append(h.used, storetest.Outcome{At: time.UnixMicro(at), Allowed: true, Cost: cost})
		h.told = append(h.told, storetest.Outcome{At: d.At, Allowed: true, Cost: cost})
	} else {
		h.refused = append(h.refused, charged{taken: at, units: cost})
	}
	return d
}

// check holds a history against the promise.
func (h *history) check() error {
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	if h.unsaid > 0 {
		return fmt.Errorf("%d decisions say wrongly whether they are from a lease", h.unsaid)
	}
	if err := storetest.CheckLogs(h.used, h.server.limits...); err != nil {
		return fmt.Errorf("by the time of use: %w", err)
	}
	if err := storetest.CheckLogs(h.told, h.server.limits...); err != nil {
		return fmt.Errorf("by Decision.At: %w", err)
	}
	for _, r := range h.refused {
		justified := false
		for _, l := range h.server.limits {
			// What was taken is what was admitted, and what nobody has spent.
			taken := int64(0)
			for _, c := range h.server.charges {
				if c.taken <= r.taken && c.taken > r.taken-(l.Window+h.longest).Microseconds() {
					taken += c.units
				}
			}
			justified = justified || taken+r.units > l.Requests
		}
		if !justified {
			return fmt.Errorf("a cost of %d was refused at %d, too early", r.units, r.taken)
		}
	}
	return nil
}

// randomHistory runs processes that lease, and others that do not, on one
// client: they crash, replies are late or lost, and clocks differ in what they
// show and how fast they go. With backdate, what a lease is counted at is not
// its end but when it was taken, which looks right and is not.
func randomHistory(seed uint64, backdate bool) *history {
	rng := rand.New(rand.NewPCG(seed, 21))
	limits := []core.Limit{core.Per(10+rng.Int64N(60), time.Duration(20+rng.IntN(100))*time.Millisecond)}
	if rng.IntN(3) == 0 {
		limits = append(limits, core.Per(20+rng.Int64N(100), time.Duration(50+rng.IntN(200))*time.Millisecond))
	}
	h := &history{server: newLogServer(time.Duration(rng.Int64N(int64(24*time.Hour))), limits...)}
	h.server.allowance = time.Hour.Microseconds() // these leases are longer, for their windows, than WithLease makes them
	var group sync.WaitGroup
	processes := 2 + rng.IntN(4)
	for range processes {
		own := rand.New(rand.NewPCG(rng.Uint64(), 22))
		var mu sync.Mutex // guards own, and what the process is
		random := func(n time.Duration) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(own.Int64N(int64(n)))
		}
		slow := 100 * time.Microsecond << own.IntN(9)
		k := link{h.server,
			func() time.Duration {
				if random(10) == 0 {
					return random(10 * slow)
				}
				return random(slow)
			},
			func() bool { return random(30) == 0 }}
		lifetime := time.Duration(1+own.IntN(40)) * time.Millisecond
		h.longest = max(h.longest, lifetime)
		size := 2 + own.Int64N(20)
		boot := func() core.Counts {
			l := process(k, size, lifetime, time.Duration(own.Int64N(int64(365*24*time.Hour))), (own.Float64()-0.5)/1000)
			if backdate {
				l.ahead = k.call0
			}
			return l
		}
		var counts core.Counts = k
		leases := own.IntN(4) > 0
		if leases {
			counts = boot()
		}
		current := func() core.Counts {
			mu.Lock()
			defer mu.Unlock()
			if leases && own.IntN(60) == 0 {
				counts = boot() // crashed: what it held is lost
			}
			return counts
		}
		busy := 200 * time.Microsecond << own.IntN(6)
		for range 1 + own.IntN(3) {
			group.Go(func() {
				for range 22 {
					cost := int64(1)
					if random(4) == 0 {
						cost += int64(random(3))
					}
					ctx, cancel := context.Background(), context.CancelFunc(func() {})
					if random(5) == 0 {
						ctx, cancel = context.WithTimeout(ctx, random(3*slow)+1)
					}
					h.take(ctx, current(), cost)
					cancel()
					time.Sleep(random(busy))
				}
			})
		}
	}
	group.Wait()
	time.Sleep(time.Hour) // for the scripts that nobody waits for any more
	return h
}

// call0 is how a lease must not be taken.
func (k link) call0(ctx context.Context, _ time.Time, _ string, cost int64) (core.Decision, error) {
	return k.call(ctx, cost, true, 0)
}

// TestLeaseModel: thousands of histories, in none of which any window holds too
// many or anybody is refused earlier than leases explain.
func TestLeaseModel(t *testing.T) {
	const histories, parts = 2000, 4
	for part := range uint64(parts) {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			var local, refused, failures, used int
			for seed := part; seed < histories; seed += parts {
				synctest.Test(t, func(t *testing.T) {
					h := randomHistory(seed, false)
					if err := h.check(); err != nil {
						t.Fatalf("seed %d, limits %v: %v", seed, h.server.limits, err)
					}
					local += h.local
					refused += len(h.refused)
					failures += h.failures
					used += len(h.used)
				})
			}
			t.Logf("%d admitted, %d decided by leases alone, %d refused, %d failed", used, local, refused, failures)
			if local < used/10 || refused < used/10 || failures < used/100 {
				t.Error("too one-sided to prove anything")
			}
		})
	}
}

// TestLeaseModelHasTeeth: the same histories find a lease that is wrong.
func TestLeaseModelHasTeeth(t *testing.T) {
	found := 0
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			if randomHistory(seed, true).check() != nil {
				found++
			}
		})
	}
	if t.Logf("found in %d of 100 histories", found); found < 5 {
		t.Error("a lease that is counted when it is taken goes unnoticed")
	}
}

// quick is a link over which nothing is lost.
func quick(s *logServer) link {
	return link{s, func() time.Duration { return 100 * time.Microsecond }, func() bool { return false }}
}

// TestLeaseRateSaturated: four processes that ask for far more than there is
// get between N / (W + D) and N / W, with few scripts.
func TestLeaseRateSaturated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit, lifetime, windows := core.Per(1000, time.Second), 100*time.Millisecond, 20
		h := &history{server: newLogServer(0, limit), longest: lifetime}
		end := time.Now().Add(time.Duration(windows) * limit.Window)
		var group sync.WaitGroup
		for range 4 {
			l := process(quick(h.server), 100, lifetime, 0, 0)
			for range 4 {
				group.Go(func() {
					for time.Now().Before(end) {
						d := h.take(context.Background(), l, 1)
						time.Sleep(max(d.RetryAfter, 20*time.Microsecond))
					}
				})
			}
		}
		group.Wait()
		if err := h.check(); err != nil {
			t.Fatal(err)
		}
		least := float64(limit.Requests) * float64(windows) / (1 + lifetime.Seconds()/limit.Window.Seconds())
		most := limit.Requests * int64(windows)
		t.Logf("%d admitted in %d windows, at least %.0f and at most %d possible; %d scripts", len(h.used), windows, least, most, h.server.scripts)
		if float64(len(h.used)) < 0.97*least || int64(len(h.used)) > most+limit.Requests {
			t.Error("the rate is not as promised")
		}
		if 5*h.server.scripts > len(h.used) {
			t.Error("too many scripts")
		}
	})
}

// TestLeaseRateBelow: where less is asked for than the limit allows, leases
// refuse nobody, and ask Redis much less.
func TestLeaseRateBelow(t *testing.T) {
	for _, load := range []float64{0.05, 0.3, 0.6, 0.8} {
		synctest.Test(t, func(t *testing.T) {
			limit, lifetime := core.Per(2000, time.Second), 100*time.Millisecond
			h := &history{server: newLogServer(0, limit), longest: lifetime}
			end := time.Now().Add(20 * limit.Window)
			var group sync.WaitGroup
			const processes = 4
			gap := float64(limit.Window) * processes / (load * float64(limit.Requests))
			for i := range uint64(processes) {
				l := process(quick(h.server), 200, lifetime, 0, 0)
				rng := rand.New(rand.NewPCG(i, 23))
				group.Go(func() {
					for time.Now().Before(end) {
						group.Go(func() { h.take(context.Background(), l, 1) })
						time.Sleep(time.Duration(rng.ExpFloat64() * gap))
					}
				})
			}
			group.Wait()
			if err := h.check(); err != nil {
				t.Fatal(err)
			}
			units := int64(0)
			for _, c := range h.server.charges {
				units += c.units
			}
			if len(h.refused) > 0 {
				t.Errorf("load %v: %d refused", load, len(h.refused))
			}
			if saved := load / 0.06; float64(h.server.scripts) > float64(len(h.used))/max(1, saved) {
				t.Errorf("load %v: %d scripts for %d decisions", load, h.server.scripts, len(h.used))
			}
			t.Logf("load %v: %d admitted, %d refused, %d scripts, %d unspent", load, len(h.used), len(h.refused), h.server.scripts, units-int64(len(h.used)))
		})
	}
}

// TestLeaseRareKeys: a client that comes less often than leases pay is decided
// as without them: every request asks, and is refused not a moment early.
func TestLeaseRareKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit, lifetime := core.Per(20, 2*time.Second), 100*time.Millisecond
		h := &history{server: newLogServer(0, limit), longest: 0}
		var group sync.WaitGroup
		for i := range uint64(3) {
			l := process(quick(h.server), 10, lifetime, 0, 0)
			rng := rand.New(rand.NewPCG(i, 24))
			group.Go(func() {
				for range 300 {
					h.take(context.Background(), l, 1)
					time.Sleep(lifetime/2 + time.Duration(rng.Int64N(int64(4*lifetime))))
				}
			})
		}
		group.Wait()
		if h.local > 0 || h.server.scripts != 900 || len(h.refused) == 0 {
			t.Errorf("%d scripts, %d decisions without one, %d refused", h.server.scripts, h.local, len(h.refused))
		}
		for _, r := range h.refused {
			h.used = append(h.used, storetest.Outcome{At: time.UnixMicro(r.taken), Cost: r.units})
		}
		if err := storetest.CheckLogs(h.used, limit); err != nil {
			t.Error(err)
		}
	})
}

// bound is a store whose counts are there already.
type bound struct{ core.Counts }

func (b bound) Bind(core.Rule) (core.Counts, error) { return b.Counts, nil }

func leasedLimiter(t *testing.T, l *leased, limits ...core.Limit) *core.Limiter {
	t.Helper()
	limiter, err := core.New(core.Config{Store: bound{l}, Limits: limits, OnStoreError: core.FailClosed})
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

// wayTo is a server, a process that leases up to size at a time from it, and the
// way between them, which may change.
func wayTo(t *testing.T, limit core.Limit, size int64) (s *logServer, rule *leased, l *core.Limiter, way *time.Duration) {
	t.Helper()
	s, way = newLogServer(0, limit), new(100*time.Microsecond)
	rule = process(link{s, func() time.Duration { return *way }, func() bool { return false }}, size, 5*time.Second, 0, 0)
	return s, rule, leasedLimiter(t, rule, limit), way
}

// warm makes requests until a decision needs no script, and returns how many.
func warm(t *testing.T, s *logServer, l *core.Limiter) (admitted int64) {
	t.Helper()
	for range 1000 {
		before := s.scripts
		if d := l.Allow(context.Background(), "client"); !d.Allowed {
			t.Fatalf("%+v", d)
		}
		admitted++
		if s.scripts == before {
			return admitted
		}
	}
	t.Fatal("never leased")
	return 0
}

// unspent is what is left of the client's lease.
func unspent(l *leased) int64 {
	who, shard := l.holder("client")
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if e := shard.byHolder[who]; e != nil {
		return e.left
	}
	return 0
}

// TestLeaseClock: what is spent from a lease is spent at a time that is read under
// the lease's lock. Read before, it might be from before the lease was taken, by
// the time that it is another's turn.
func TestLeaseClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := []core.Limit{core.Per(1000, time.Second)}
		s := newLogServer(0, limits...)
		p := process(quick(s), 50, 100*time.Millisecond, 0, 0)
		l := leasedLimiter(t, p, limits...)
		for warm(t, s, l); unspent(p) == 0; {
			l.Allow(t.Context(), "client")
		}
		_, shard := p.holder("client")
		read := false
		p.table.now = func() time.Time {
			read = true
			if shard.mu.TryLock() {
				shard.mu.Unlock()
				t.Error("the clock is read without the lock")
			}
			return time.Now()
		}
		left := unspent(p)
		if d := l.Allow(t.Context(), "client"); !d.Allowed || d.Err != nil || !read || unspent(p) != left-1 {
			t.Errorf("%+v; clock read: %v; %d were unspent, %d are", d, read, left, unspent(p))
		}
	})
}

// TestLeaseNumbers follows one process, alone on a client: what it is told is
// what a store without leases would tell, give or take the lifetime.
func TestLeaseNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := []core.Limit{core.Per(500, time.Second).Named("a"), core.Per(600, time.Minute).Named("b")}
		lifetime := 100 * time.Millisecond
		s := newLogServer(time.Hour, limits...)
		l := leasedLimiter(t, process(quick(s), 50, lifetime, 0, 0), limits...)
		admitted := warm(t, s, l)
		var last time.Time
		for admitted < 500 {
			before := s.scripts
			if d := l.AllowN(t.Context(), "client", 0); !d.Allowed || d.Remaining != 500-admitted {
				t.Fatalf("a cost of 0 after %d: %+v", admitted, d)
			}
			peek := l.Peek(t.Context(), "client")
			asked := s.scripts != before
			d := l.Allow(t.Context(), "client")
			if admitted++; !d.Allowed || d.Limit != limits[0] || d.Remaining != 500-admitted || d.RetryAfter != 0 {
				t.Fatalf("request %d: %+v", admitted, d)
			}
			if asked {
				last = time.Time{}
				continue // it renewed the lease: not the same moment
			}
			if peek != d {
				t.Fatalf("request %d: %+v, a peek said %+v", admitted, d, peek)
			}
			now, newest := time.Now().Add(s.skew), time.UnixMicro(s.charges[len(s.charges)-1].stamp)
			if d.At.After(newest) || d.At.After(now) || now.Sub(d.At) > 200*time.Microsecond || d.At.Before(last) {
				t.Fatalf("request %d at %v: At %v, before %v, the lease ends at %v", admitted, now, d.At, last, newest)
			}
			last = d.At
			if frees := d.At.Add(d.ResetAfter); !frees.Equal(time.UnixMicro(s.charges[0].stamp).Add(limits[0].Window)) {
				t.Fatalf("request %d: quota comes back at %v", admitted, frees)
			}
			time.Sleep(700 * time.Microsecond)
		}
		// The last of it has been taken: refusals are Redis's.
		d := l.Allow(t.Context(), "client")
		if d.Allowed || d.Remaining != 0 || d.Limit != limits[0] {
			t.Fatalf("%+v", d)
		}
		time.Sleep(d.RetryAfter - time.Millisecond)
		if d := l.Allow(t.Context(), "client"); d.Allowed {
			t.Fatalf("too early: %+v", d)
		}
		time.Sleep(time.Millisecond)
		if d := l.Allow(t.Context(), "client"); !d.Allowed {
			t.Fatalf("when told to come: %+v", d)
		}
	})
}

// TestLeaseCosts: what does not fit a lease takes another, what no lease can
// hold asks by itself, and what is above the limit never passes.
func TestLeaseCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := core.Per(1000, time.Hour).Named("a")
		s := newLogServer(0, limit)
		l := leasedLimiter(t, process(quick(s), 100, time.Minute, 0, 0), limit)
		admitted := warm(t, s, l)
		rng := rand.New(rand.NewPCG(1, 25))
		for {
			cost := 1 + rng.Int64N(30)
			if rng.IntN(5) == 0 {
				cost = 101 + rng.Int64N(20)
			}
			d := l.AllowN(t.Context(), "client", cost)
			if !d.Allowed {
				break
			}
			admitted += cost
		}
		charged := int64(0)
		for _, c := range s.charges {
			charged += c.units
		}
		if t.Logf("%d of %d admitted, %d charged", admitted, limit.Requests, charged); charged < admitted || charged > limit.Requests || admitted < 700 {
			t.Error("not as expected")
		}
		if d := l.AllowN(t.Context(), "client", 1001); d.RetryAfter != core.Never {
			t.Errorf("%+v", d)
		}
	})
}

// TestLeaseOneRenews: when a lease is used up, one request takes the next and
// the others wait for it; nobody depends on the patience of that one.
func TestLeaseOneRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rule, l, way := wayTo(t, core.Per(100_000, time.Minute), 1000)
		empty := func() {
			for range 400 {
				warm(t, s, l)
			}
			if d := l.AllowN(t.Context(), "client", unspent(rule)); !d.Allowed || unspent(rule) != 0 {
				t.Fatalf("%+v, %d left", d, unspent(rule))
			}
		}
		empty()
		*way = 10 * time.Millisecond
		before, began := s.scripts, time.Now()
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				if d := l.Allow(t.Context(), "client"); !d.Allowed || d.Err != nil {
					t.Errorf("%+v", d)
				}
			})
		}
		group.Wait()
		if n := s.scripts - before; n != 1 || time.Since(began) > 2**way {
			t.Errorf("%d scripts, %v", n, time.Since(began))
		}

		// The one who renews leaves.
		*way = 100 * time.Microsecond
		empty()
		*way = 10 * time.Millisecond
		impatient, leave := context.WithCancel(t.Context())
		group.Go(func() {
			if d := l.Allow(impatient, "client"); d.Allowed || !errors.Is(d.Err, context.Canceled) {
				t.Errorf("%+v", d)
			}
		})
		synctest.Wait()
		for range 100 {
			group.Go(func() {
				if d := l.Allow(t.Context(), "client"); !d.Allowed || d.Err != nil {
					t.Errorf("%+v", d)
				}
			})
		}
		synctest.Wait()
		time.Sleep(time.Millisecond)
		leave()
		group.Wait()
		time.Sleep(time.Second)
	})
}

// TestLeaseCallerLeaves: a caller that leaves while it renews a lease wastes nothing: the
// lease is there for the others, whether they wait for it or come later.
func TestLeaseCallerLeaves(t *testing.T) {
	for name, impatient := range map[string]func(*leased, context.Context) (core.Decision, error){
		"cancelled": func(rule *leased, ctx context.Context) (core.Decision, error) {
			ctx, leave := context.WithCancel(ctx)
			time.AfterFunc(time.Millisecond, leave)
			return rule.Take(ctx, core.Ask{Key: "client", Cost: 1, Timeout: core.DefaultTimeout})
		},
		"with a deadline": func(rule *leased, ctx context.Context) (core.Decision, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			return rule.Take(ctx, core.Ask{Key: "client", Cost: 1})
		},
		"with a short timeout": func(rule *leased, ctx context.Context) (core.Decision, error) {
			return rule.Take(ctx, core.Ask{Key: "client", Cost: 1, Timeout: time.Millisecond})
		},
	} {
		for _, waits := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s, rule, l, way := wayTo(t, core.Per(100_000, time.Minute), 1000)
				admitted := int64(0)
				for range 400 {
					admitted += warm(t, s, l)
				}
				for round := range 10 {
					left := unspent(rule)
					if d := l.AllowN(t.Context(), "client", left); !d.Allowed {
						t.Fatalf("%+v", d)
					}
					admitted += left
					*way = 10 * time.Millisecond
					before := s.scripts
					began := time.Now()
					var group sync.WaitGroup
					if waits {
						group.Go(func() {
							synctest.Wait()
							if d := l.Allow(t.Context(), "client"); !d.Allowed || d.Err != nil {
								t.Errorf("%s, round %d: a caller that waits: %+v", name, round, d)
							}
						})
						admitted++
					}
					if d, err := impatient(rule, t.Context()); err == nil || time.Since(began) != time.Millisecond {
						t.Errorf("%s, round %d: %+v, %v after %v", name, round, d, err, time.Since(began))
					}
					group.Wait()
					time.Sleep(30 * time.Millisecond)
					synctest.Wait()
					if s.scripts != before+1 || unspent(rule) < 10 {
						t.Errorf("%s, round %d: %d scripts, %d units are left", name, round, s.scripts-before, unspent(rule))
					}
					*way = 100 * time.Microsecond
					for range 20 {
						admitted += warm(t, s, l)
					}
				}
				charged := int64(0)
				for _, c := range s.charges {
					charged += c.units
				}
				// A lease gives way to a larger one with less than a request of cost 1 left.
				if wasted := charged - admitted - unspent(rule); wasted != 0 {
					t.Errorf("%s: of %d units that were charged, %d are wasted", name, charged, wasted)
				}
			})
		}
	}
}

// TestLeaseRenewalFails: when a lease cannot be taken, those that wait for it are told,
// and do not ask again one by one.
func TestLeaseRenewalFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rule, l, way := wayTo(t, core.Per(100_000, time.Minute), 1000)
		for range 400 {
			warm(t, s, l)
		}
		if d := l.AllowN(t.Context(), "client", unspent(rule)); !d.Allowed {
			t.Fatalf("%+v", d)
		}
		*way = 5 * time.Millisecond
		link := rule.asker.(link)
		link.loses = func() bool { return true }
		rule.asker = link
		rule.ahead = func(ctx context.Context, _ time.Time, _ string, cost int64) (core.Decision, error) {
			return link.call(ctx, cost, true, rule.lifetime)
		}
		before := s.scripts
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				if d, err := rule.Take(t.Context(), core.Ask{Key: "client", Cost: 1, Timeout: core.DefaultTimeout}); !errors.Is(err, errLost) {
					t.Errorf("%+v, %v", d, err)
				}
			})
		}
		group.Wait()
		if n := s.scripts - before; n != 1 {
			t.Errorf("%d scripts, want 1", n)
		}
	})
}

// TestLeaseLostReply: when the reply to the one who renews is lost, nobody else's
// time is up with it, however long that one waits.
func TestLeaseLostReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := core.Per(100_000, time.Minute)
		s := newLogServer(0, limit)
		rule := process(quick(s), 1000, 5*time.Second, 0, 0)
		l := leasedLimiter(t, rule, limit)
		for unspent(rule) < 10 {
			warm(t, s, l)
		}
		l.AllowN(t.Context(), "client", unspent(rule))
		ahead, lost := rule.ahead, true
		rule.ahead = func(ctx context.Context, deadline time.Time, client string, cost int64) (core.Decision, error) {
			if d, err := ahead(ctx, deadline, client, cost); !lost {
				return d, err
			}
			ctx, cancel := withDeadline(ctx, deadline)
			defer cancel()
			<-ctx.Done()
			return core.Decision{}, ctx.Err()
		}
		patient, leave := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { rule.Take(patient, core.Ask{Key: "client", Cost: 1, Timeout: time.Hour}) })
		synctest.Wait()
		for i := range 200 {
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i)*time.Millisecond)
				defer cancel()
				if d := l.Allow(ctx, "client"); !d.Allowed || d.Err != nil {
					t.Errorf("with %d ms: %+v", 1+i, d)
				}
			})
		}
		time.Sleep(renewalPatience)
		began := time.Now()
		if d := l.Allow(t.Context(), "client"); !d.Allowed || time.Since(began) > time.Millisecond {
			t.Errorf("%+v after %v: it waits although that is in vain", d, time.Since(began))
		}
		leave()
		group.Wait()
		time.Sleep(time.Hour)
		lost = false
		warm(t, s, l) // it is leased again
	})
}

// TestLeaseLongWay: where the way is longer than half of the timeout, nobody gives
// up waiting for a lease to ask alone, too late, or waits for one in vain.
func TestLeaseLongWay(t *testing.T) {
	for _, way := range []time.Duration{18, 45, 60, 75} {
		synctest.Test(t, func(t *testing.T) {
			way := way * time.Millisecond
			limit, timeout := core.Per(1_000_000, 10*time.Second), min(way*5/3, core.DefaultTimeout)
			k := link{newLogServer(0, limit), func() time.Duration { return way/2 - way/20 + rand.N(way/10) }, func() bool { return false }}
			rule := process(k, 1000, time.Second, 0, 0)
			var group sync.WaitGroup
			var answered, late atomic.Int64
			end := time.Now().Add(5 * time.Second)
			for range 64 {
				group.Go(func() {
					for time.Now().Before(end) {
						began := time.Now()
						if _, err := rule.Take(t.Context(), core.Ask{Key: "client", Cost: 1, Timeout: timeout}); err == nil {
							answered.Add(1)
						} else {
							late.Add(1)
						}
						if took := time.Since(began); took > timeout {
							t.Errorf("waited %v", took)
						}
						time.Sleep(time.Millisecond)
					}
				})
			}
			group.Wait()
			s := k.server
			t.Logf("with %v: %d were answered, for %d it was too late; %d scripts", way, answered.Load(), late.Load(), s.scripts)
			if late.Load() > 0 || 50*int64(s.scripts) > answered.Load() {
				t.Errorf("with %v, too many were late, or asked alone", way)
			}
			time.Sleep(time.Second)
		})
	}
}

// TestLeaseCrowd: where leases are small for the crowd that waits for them, those
// who get nothing of one are decided in time.
func TestLeaseCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, l, way := wayTo(t, core.Per(100_000, time.Minute), 4)
		for range 10 {
			warm(t, s, l)
		}
		*way = 2500 * time.Microsecond
		var group sync.WaitGroup
		for range 400 {
			group.Go(func() {
				began := time.Now()
				if d := l.Allow(t.Context(), "client"); !d.Allowed || d.Err != nil || time.Since(began) > nextPatience+4**way {
					t.Errorf("%+v after %v", d, time.Since(began))
				}
			})
		}
		group.Wait()
	})
}

// remembering is a link beside which refusals are remembered.
type remembering struct {
	link
	denials *denials
	rule    *counts
}

func (r remembering) find(client string, cost int64, d *core.Decision) (found, asks bool) {
	return r.denials.find(r.rule, client, cost, d)
}

func (r remembering) take(ctx context.Context, deadline time.Time, client string, cost int64, charge bool) (core.Decision, error) {
	sent := time.Now()
	d, err := r.link.take(ctx, deadline, client, cost, charge)
	if err == nil {
		r.denials.note(r.rule, client, cost, sent, d)
	}
	return d, err
}

// TestLeaseNothingLeft: when there is nothing to lease, what the one who asked
// was told is good for those who waited.
func TestLeaseNothingLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := core.Per(1000, time.Minute)
		s := newLogServer(0, limit)
		rule := process(quick(s), 100, 5*time.Second, 0, 0)
		rule.asker = remembering{quick(s), newDenials(), &counts{id: 1}}
		l := leasedLimiter(t, rule, limit)
		for range 20 {
			warm(t, s, l)
		}
		l.AllowN(t.Context(), "client", unspent(rule))
		others := s.decide(s.now(), 0, true, 0).Remaining
		s.decide(s.now(), others, true, 0)
		before := s.scripts
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				if d := l.Allow(t.Context(), "client"); d.Allowed || d.Err != nil {
					t.Errorf("%+v", d)
				}
			})
		}
		group.Wait()
		if n := s.scripts - before; n != 2 { // for a lease, and for one request
			t.Errorf("%d scripts", n)
		}
	})
}

// TestLeaseResetMeanwhile: a lease that was asked for before a reset is not kept.
func TestLeaseResetMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := core.Per(100_000, time.Minute)
		s := newLogServer(0, limit)
		k := quick(s)
		rule := process(k, 1000, 5*time.Second, 0, 0)
		l := leasedLimiter(t, rule, limit)
		for unspent(rule) < 10 {
			warm(t, s, l)
		}
		l.AllowN(t.Context(), "client", unspent(rule))
		done := make(chan core.Decision)
		go func() { done <- l.Allow(t.Context(), "client") }()
		synctest.Wait() // it waits for its lease
		if err := l.Reset(t.Context(), "client"); err != nil {
			t.Fatal(err)
		}
		if d := <-done; !d.Allowed || s.charges[len(s.charges)-1].units < 2 || unspent(rule) != 0 {
			t.Errorf("%+v, %d left", d, unspent(rule))
		}
	})
}

// TestLeaseStoreErrors: while Redis is silent, what has been leased is spent,
// then the policy decides, within the timeout.
func TestLeaseStoreErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := core.Per(10_000, time.Minute)
		s, rule, l, way := wayTo(t, limit, 1000)
		for range 20 {
			warm(t, s, l)
		}
		left := unspent(rule)
		if left < 5 {
			t.Fatalf("only %d left", left)
		}
		*way = time.Hour
		for range left {
			began := time.Now()
			if d := l.Allow(t.Context(), "client"); !d.Allowed || d.Err != nil || time.Since(began) > 0 {
				t.Fatalf("%+v after %v", d, time.Since(began))
			}
		}
		var group sync.WaitGroup
		for range 300 {
			group.Go(func() {
				began := time.Now()
				if d := l.Allow(t.Context(), "client"); d.Allowed || !errors.Is(d.Err, core.ErrStore) || time.Since(began) > core.DefaultTimeout {
					t.Errorf("%+v after %v", d, time.Since(began))
				}
			})
			time.Sleep(time.Millisecond)
		}
		group.Wait()
		*way = 100 * time.Microsecond
		time.Sleep(3 * time.Hour) // the window is empty again
		if d := l.Allow(t.Context(), "client"); !d.Allowed || d.Remaining != limit.Requests-1 {
			t.Errorf("afterwards: %+v", d)
		}
		warm(t, s, l)
	})
}

// TestLeaseTableBounded: clients that come and go do not fill the memory, and
// do not take away what one holds.
func TestLeaseTableBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := core.Per(100_000, time.Hour)
		s := newLogServer(0, limit)
		k := quick(s)
		k.delay = func() time.Duration { return 0 }
		rule := process(k, 1000, time.Minute, 0, 0)
		l := leasedLimiter(t, rule, limit)
		for unspent(rule) == 0 {
			warm(t, s, l)
		}
		for i := range leaseShards * leasesInShard * 5 / 4 {
			l.Allow(t.Context(), fmt.Sprint("another ", i))
		}
		before := s.scripts
		if d := l.Allow(t.Context(), "client"); !d.Allowed || s.scripts != before {
			t.Error("a lease was given up for a client that was seen once")
		}
		n := 0
		for i := range rule.table.shards {
			n += len(rule.table.shards[i].byHolder)
		}
		if n > leaseShards*leasesInShard || n < leaseShards*leasesInShard/2 {
			t.Errorf("%d clients are remembered", n)
		}
	})
}

// TestLeaseScript compares the script of leases with the arithmetic, and both
// with requests that are not leases in between.
func TestLeaseScript(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		rewound := 0
		for seed := range uint64(25) {
			rng := rand.New(rand.NewPCG(seed, 26))
			limits := []core.Limit{core.Per(1+rng.Int64N(30), time.Duration(1000+rng.Int64N(100_000))*time.Microsecond).Named("a")}
			if rng.IntN(2) == 0 {
				limits = append(limits, core.Per(1+rng.Int64N(60), time.Duration(1000+rng.Int64N(200_000))*time.Microsecond).Named("b"))
			}
			_, lifetime := leaseOf(limits, 1, time.Duration(1+rng.Int64N(20_000))*time.Microsecond)
			c, s, client := bind(t, rdb, limits...), newLogServer(0, limits...), fmt.Sprint("client ", seed)
			leased := c.aheadBy(lifetime)
			now := int64(1_790_000_000_000_000) + rng.Int64N(1e12)
			for step := range 40 {
				now += rng.Int64N(limits[0].Window.Microseconds() / 3)
				if rng.IntN(10) == 0 {
					now -= rng.Int64N(2 * limits[0].Window.Microseconds())
				}
				cost, ahead, asked := rng.Int64N(8), time.Duration(0), c
				if rng.IntN(2) == 0 {
					ahead, asked = lifetime, leased
				}
				got, err := asked.at(t, now).ask(ctx, time.Time{}, client, cost, true)
				if err != nil {
					t.Fatal(err)
				}
				if want := s.decide(now, cost, true, ahead); got != want {
					t.Fatalf("seed %d step %d: %v, cost %d, ahead %v:\n got %+v\nwant %+v", seed, step, limits, cost, ahead, got, want)
				}
				for i, key := range c.keys(nil, client) {
					newest := time.Duration(max(0, s.logs[i].Newest()-now)) * time.Microsecond
					if ttl := rdb.PTTL(ctx, key.(string)).Val(); got.Allowed && cost > 0 && ttl < newest+limits[i].Window {
						t.Fatalf("seed %d step %d: a TTL of %v for what is needed for %v", seed, step, ttl, newest+limits[i].Window)
					}
				}
			}
			rewound += s.rewound
			rdb.FlushAll(ctx)
		}
		if rewound < 10 {
			t.Errorf("only %d logs were too far ahead", rewound)
		}
	})
}

// TestLeaseStepBack: the longest lease that is allowed is counted at its end, even if the
// server's clock steps back a little, as in a failover.
func TestLeaseStepBack(t *testing.T) {
	servers(t, func(t *testing.T, rdb *redis.Client) {
		for _, limit := range []core.Limit{core.PerSecond(100), core.PerHour(100)} {
			c, client := bind(t, rdb, limit), limit.Window.String()
			_, lifetime := leaseOf(c.rule.Limits, 100, maxLease)
			now := int64(1_790_000_000_000_000)
			if d := c.aheadBy(lifetime).takeAt(t, client, 10, true, now); !d.Allowed {
				t.Fatalf("%+v", d)
			}
			step := min(15*time.Second, limit.Window/40)
			d := c.takeAt(t, client, 91, true, now-step.Microseconds())
			if want := step + lifetime + limit.Window; d.Allowed || d.RetryAfter != want {
				t.Errorf("%v: %+v, want %v", limit, d, want)
			}
		}
	})
}

func TestLeaseOptions(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	for _, wrong := range []Option{WithLease(1, time.Second), WithLease(-1, time.Second), WithLease(core.MaxLogRequests+1, time.Second), WithLease(100, 0), WithLease(100, time.Hour)} {
		_, err := core.New(core.Config{Store: New(rdb, wrong), Limits: []core.Limit{core.PerMinute(100)}})
		if err == nil || !strings.Contains(err.Error(), "such as") {
			t.Errorf("%v", err)
		}
	}
	for _, c := range []struct {
		limits   []core.Limit
		size     int64
		lifetime time.Duration
	}{
		{[]core.Limit{core.PerMinute(100_000)}, 500, time.Second},
		{[]core.Limit{core.PerMinute(1000)}, 100, time.Second},
		{[]core.Limit{core.PerSecond(20), core.PerHour(100_000)}, 2, 100 * time.Millisecond},
		{[]core.Limit{core.PerMinute(19)}, 0, 0},
		{[]core.Limit{core.Per(100_000, 9*time.Millisecond)}, 0, 0},
		{[]core.Limit{core.PerMinute(100_000), core.PerHour(1_000_000).Using(core.SlidingCounter)}, 0, 0},
	} {
		counts, err := New(rdb, WithLease(500, time.Second)).Bind(core.Rule{Limits: c.limits})
		if err != nil {
			t.Fatal(err)
		}
		l, ok := counts.(*leased)
		if ok != (c.size > 0) || ok && (l.size != c.size || l.lifetime != c.lifetime) {
			t.Errorf("%v: %+v", c.limits, counts)
		}
	}
}

// TestLeaseReset: this process believes a reset at once, for every rule that
// may be on the same counts.
func TestLeaseReset(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { rdb.Close() })
	store := New(rdb, WithLease(1000, time.Minute))
	limit := core.PerHour(100_000)
	make := func() *core.Limiter {
		return core.Must(core.New(core.Config{Store: store, Limits: []core.Limit{limit}, OnStoreError: core.FailClosed, Timeout: 20 * time.Second}))
	}
	l, same := make(), make()
	for range 3 {
		for i := range int64(5000) {
			if d := l.Allow(ctx, "client"); !d.Allowed || i < 3 && d.Remaining != limit.Requests-1-i {
				t.Fatalf("request %d: %+v", i, d)
			}
			same.Allow(ctx, "other")
		}
		if err := same.Reset(ctx, "client"); err != nil {
			t.Fatal(err)
		}
		if d := l.AllowN(ctx, "client", 0); d.Remaining != limit.Requests {
			t.Fatalf("after the reset: %+v", d)
		}
	}
}

// TestLeaseAfterDenial: who is to ask whether a refusal still stands brings an
// answer to that, not a lease beside which the refusal goes on.
func TestLeaseAfterDenial(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	limits := []core.Limit{core.PerHour(100)}
	limiter := func(s *Store) *core.Limiter {
		return core.Must(core.New(core.Config{Store: s, Limits: limits, OnStoreError: core.FailClosed, Timeout: 20 * time.Second}))
	}
	s := New(rdb, WithLease(10, time.Minute))
	l := limiter(s)
	for range 100 {
		if d := l.Allow(t.Context(), "client"); !d.Allowed {
			t.Fatalf("%+v", d)
		}
	}
	if d := l.Peek(t.Context(), "client"); d.Allowed {
		t.Fatalf("%+v", d)
	}
	if err := limiter(New(rdb)).Reset(t.Context(), "client"); err != nil {
		t.Fatal(err)
	}
	s.denials.start = s.denials.start.Add(-denialCheck) // a second later
	for i := range 100 {
		if d := l.Allow(t.Context(), "client"); !d.Allowed {
			t.Fatalf("after %d: %+v", i, d)
		}
	}
}

// scripts is how many scripts the server has run.
func scripts(t testing.TB, rdb *redis.Client) (n int) {
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
	asker
	mu      *sync.Mutex
	charges *[]charged
}

func (r recorded) take(ctx context.Context, deadline time.Time, client string, cost int64, charge bool) (core.Decision, error) {
	return r.note(cost)(r.asker.take(ctx, deadline, client, cost, charge))
}

func (r recorded) note(cost int64) func(core.Decision, error) (core.Decision, error) {
	return func(d core.Decision, err error) (core.Decision, error) {
		if err == nil && d.Allowed {
			r.mu.Lock()
			defer r.mu.Unlock()
			*r.charges = append(*r.charges, charged{stamp: d.At.UnixMicro(), units: cost})
		}
		return d, err
	}
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
			without := hotKey(t, c.limit, c.lifetime)
			with := hotKey(t, c.limit, c.lifetime, WithLease(1000, c.lifetime))
			if t.Logf("%.1f and %.1f units per script", without, with); with < c.perScript {
				t.Errorf("with leases a script admits %.1f units, want at least %v", with, c.perScript)
			}
		})
	}
}

// hotKey returns how many units a script has admitted.
func hotKey(t *testing.T, limit core.Limit, lifetime time.Duration, options ...Option) (perScript float64) {
	const atLeast = 1000 // decisions of each goroutine
	server := redistest.Start(t)
	var mu sync.Mutex
	var admitted, refused []storetest.Outcome
	var charges []charged
	var group sync.WaitGroup
	for range 4 {
		counts, err := New(server.Client(t), options...).Bind(core.Rule{Name: "test", Limits: []core.Limit{limit}})
		if err != nil {
			t.Fatal(err)
		}
		if l, ok := counts.(*leased); ok {
			r, ahead := recorded{l.asker, &mu, &charges}, l.ahead
			l.asker = r
			l.ahead = func(ctx context.Context, deadline time.Time, client string, cost int64) (core.Decision, error) {
				return r.note(cost)(ahead(ctx, deadline, client, cost))
			}
		}
		end := time.Now().Add(400 * time.Millisecond)
		for range 8 {
			group.Go(func() {
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
					} else if len(no) < 20_000 {
						no = append(no, o)
					} else {
						no[i%len(no)] = o
					}
				}
				mu.Lock()
				defer mu.Unlock()
				admitted, refused = append(admitted, yes...), append(refused, no...)
			})
		}
	}
	group.Wait()
	spent, taken := int64(0), int64(0)
	for _, o := range admitted {
		spent += o.Cost
	}
	if options == nil {
		if err := storetest.CheckLogs(append(admitted, refused...), limit); err != nil {
			t.Error(err)
		}
	} else {
		if err := storetest.CheckLogs(admitted, limit); err != nil {
			t.Error(err)
		}
		// Refused only if what the last W + D have taken leaves no room: stamps
		// are ahead of the taking by D at most.
		slices.SortFunc(charges, func(a, b charged) int { return cmp.Compare(a.stamp, b.stamp) })
		totals := []int64{0}
		for _, c := range charges {
			taken += c.units
			totals = append(totals, taken)
		}
		before := func(stamp int64) int64 {
			return totals[sort.Search(len(charges), func(i int) bool { return charges[i].stamp > stamp })]
		}
		for _, o := range refused {
			at := o.At.UnixMicro()
			if n := before(at+lifetime.Microseconds()) - before(at-limit.Window.Microseconds()); n+o.Cost <= limit.Requests {
				t.Fatalf("a cost of %d was refused while %d of %d were taken", o.Cost, n, limit.Requests)
			}
		}
		if taken < spent {
			t.Errorf("%d units admitted, %d charged", spent, taken)
		}
	}
	n := scripts(t, server.Client(t))
	t.Logf("%d admitted, %d units, %d taken; at least %d refused; %d scripts", len(admitted), spent, taken, len(refused), n)
	return float64(spent) / float64(n)
}

// TestConformanceLeased: with leases, rules that cannot be leased, and keys
// that are not busy, are as exact as without. Three subtests are run without:
// they demand the exact number or moment of rules that are leased, where a
// lease may refuse early and is counted at its end.
func TestConformanceLeased(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	storetest.Run(t, func(t *testing.T) core.Store {
		for _, exact := range []string{"/Histories", "/Concurrency", "/Extremes"} {
			if strings.HasSuffix(t.Name(), exact) {
				return New(rdb)
			}
		}
		return New(rdb, WithLease(1000, time.Minute))
	})
}
