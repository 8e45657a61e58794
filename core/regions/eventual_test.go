package regions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/storetest"
)

// count returns the scene's stores with every call counted by its verb and region, such as "Usage us".
func (s *scene) count() map[string]int {
	var mu sync.Mutex
	calls := map[string]int{}
	for name, store := range s.stores {
		s.stores[name] = storetest.Wrap(store, func(ctx context.Context, c storetest.Call) (core.Decision, error) {
			mu.Lock()
			if c.Rule.Name == checks.Name {
				c.Verb = "check"
			}
			calls[c.Verb+" "+name]++
			mu.Unlock()
			return c.Next(ctx)
		})
	}
	return calls
}

// admitted returns how many of n requests at once are admitted.
func admitted(t *testing.T, l *core.Limiter, key string, n int) (admitted int) {
	t.Helper()
	for range n {
		if d := l.Allow(t.Context(), key); d.Allowed {
			admitted++
		}
	}
	return admitted
}

// TestCalls: a decision is one call of the own region's store. A client far below its limit is looked at by no one, a
// busy one once in an Every.
func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene()
		calls := s.count()
		l := s.limiter(t, Config{Here: "ap"}, core.PerMinute(1000))
		admitted(t, l, "quiet", 24) // less than a twentieth, shared by two regions
		time.Sleep(time.Second)
		synctest.Wait()
		want := map[string]int{"Take ap": 24, "check ap": 4, "check eu": 4, "check us": 4} // of the names
		if !maps.Equal(calls, want) {
			t.Errorf("%v, want %v", calls, want)
		}
		clear(calls)
		for range 100 {
			admitted(t, l, "busy", 5)
			time.Sleep(10*time.Millisecond + 1)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		// the fifth round begins the looks, and each tenth or so makes one more of them
		if takes, there := calls["Take ap"], calls["Usage us"]; takes != 500 || there != 5 || len(calls) != 4 {
			t.Errorf("%v, want 500 decisions here, and 5 looks", calls)
		}
	})
}

// TestSilent: a region that has not answered for 2 s withholds its share, or what is known of it if that is more,
// until it answers. Before, it withholds what is known, for a window from the answer on.
func TestSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene()
		ap := s.limiter(t, Config{Here: "ap"}, core.PerMinute(9))
		us := s.limiter(t, Config{Here: "us"}, core.PerMinute(9))
		step := func(what string, wait time.Duration, want int) {
			t.Helper()
			time.Sleep(wait)
			if got := admitted(t, ap, "k", 12); got != want {
				t.Errorf("%s: %d admitted, want %d", what, got, want)
			}
			synctest.Wait() // for looks
		}
		if got := admitted(t, us, "k", 5); got != 5 {
			t.Fatalf("%d of 5 admitted", got)
		}
		time.Sleep(time.Second)
		step("what us leaves", 0, 4)
		s.down["us"] = errors.New("refused")
		step("known for a window", time.Minute-time.Second, 0)
		step("no more, and not silent yet, but a share", 1500*time.Millisecond, 6)
		time.Sleep(time.Second)
		admitted(t, ap, "k", 1)
		time.Sleep(time.Second)
		synctest.Wait()
		if s.notice != "region-silent" {
			t.Errorf("the notice is %q", s.notice)
		}
		step("silent, with a share of 3", time.Minute, 6)
		delete(s.down, "us")
		step("still silent", time.Second, 0)
		step("back", time.Second, 3)
		time.Sleep(time.Second)
	})
}

// TestFull: a client without a place in the table has the share of this region, and so has one of which a look is
// overdue.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene()
		l := s.limiter(t, Config{Here: "ap", MaxClients: 1}, core.PerMinute(9))
		if first, second := admitted(t, l, "first", 12), admitted(t, l, "second", 12); first != 9 || second != 3 {
			t.Errorf("%d and %d admitted, want 9 and the share of 3", first, second)
		}
		if s.notice != "region-shares" {
			t.Errorf("the notice is %q", s.notice)
		}
		time.Sleep(3 * time.Second) // the first client's place is free
		if got := admitted(t, l, "third", 12); got != 9 {
			t.Errorf("%d admitted in the place of another, want 9", got)
		}
		time.Sleep(time.Second)
	})
}

// TestOverdue: of many clients that are to be looked at, 512 in an Every are, the nearest to their limits first. One of
// which a request waits for the look comes before all of these.
func TestOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, Config{Here: "ap", Stores: three()})
		counts, err := store.Bind(core.Binding{Limits: []core.Limit{core.PerMinute(90).Named("limit")}})
		if err != nil {
			t.Fatal(err)
		}
		e := counts.(*eventual)
		const clients = 6000
		for i := range clients {
			key := fmt.Sprint(i)
			e.store.table.wish(wish{holder: e.holder(key), rule: e.rule, key: key, left: float64(i) / clients}, e.store.now())
		}
		time.Sleep(2*time.Second + 100*time.Millisecond)
		looked := func(i int) bool {
			e.store.table.mu.Lock()
			defer e.store.table.mu.Unlock()
			return e.store.table.clients[e.holder(fmt.Sprint(i))].sent > 0
		}
		if n := 10 * atOnce; !looked(0) || !looked(n-1) || looked(n+atOnce) {
			t.Errorf("looked at the first: %v, at %d: %v, at %d: %v", looked(0), n-1, looked(n-1), n+atOnce,
				looked(n+atOnce))
		}
		if stats := store.Stats(); stats.Clients != clients || stats.Overdue == 0 || stats.Overdue > clients-10*atOnce {
			t.Errorf("%+v, want %d clients, and the %d without a look overdue", stats, clients, clients-10*atOnce)
		}
		for _, i := range []int{0, clients - 1} {
			began, got := time.Now(), 0
			for range 90 {
				ask := core.Ask{Key: fmt.Sprint(i), Cost: 1, Timeout: 100 * ms}
				if d, err := counts.Take(t.Context(), ask); err != nil {
					t.Fatal(err)
				} else if d.Allowed {
					got++
				}
			}
			if took := time.Since(began); got != 90 || took > 2*gathers {
				t.Errorf("client %d: %d admitted after %v, want 90 after one look", i, got, took)
			}
		}
		time.Sleep(3 * time.Second)
	})
}

// TestLooksTogether: looks that are wished for within 10 ms go at the same moment.
func TestLooksTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts, err := newStore(t, Config{Here: "ap", Stores: three()}).Bind(
			core.Binding{Limits: []core.Limit{core.PerMinute(90).Named("limit")}})
		if err != nil {
			t.Fatal(err)
		}
		e := counts.(*eventual)
		for i := range 5 {
			time.Sleep(time.Millisecond)
			key := fmt.Sprint(i)
			e.store.table.wish(wish{holder: e.holder(key), rule: e.rule, key: key}, e.store.now())
		}
		time.Sleep(time.Second)
		e.store.table.mu.Lock()
		defer e.store.table.mu.Unlock()
		first := e.store.table.clients[e.holder("0")].sent
		for _, c := range e.store.table.clients {
			if c.sent == 0 || c.sent != first {
				t.Errorf("a look went at %v, the first at %v", c.sent, first)
			}
		}
	})
}

// TestRetryAfter: a client that others have used up is told when their first unit leaves, and passes then.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene()
		ap := s.limiter(t, Config{Here: "ap"}, core.PerMinute(9))
		us := s.limiter(t, Config{Here: "us"}, core.PerMinute(9))
		if got := admitted(t, us, "k", 9); got != 9 {
			t.Fatalf("%d of 9 admitted", got)
		}
		time.Sleep(time.Second)
		admitted(t, ap, "k", 4) // a share, since nothing is known yet
		time.Sleep(time.Second)
		d := ap.Allow(t.Context(), "k")
		if d.Allowed || d.Limit.Requests != 9 || d.Remaining != 0 || d.RetryAfter < 58*time.Second-50*ms ||
			d.RetryAfter > 58*time.Second || d.Region != "ap" || time.Until(d.At) > time.Second {
			t.Errorf("%+v", d)
		}
		time.Sleep(d.RetryAfter)
		for i := range 6 {
			if d := ap.Allow(t.Context(), "k"); !d.Allowed {
				t.Errorf("request %d after that: %+v", i, d)
			}
		}
		eu := s.limiter(t, Config{Here: "eu"}, core.PerMinute(9))
		for key, by := range map[string][]*core.Limiter{
			"own first": {ap, eu, us}, "eu first": {eu, us, ap}, "us first": {us, eu, ap},
		} {
			for _, l := range by {
				if got := admitted(t, l, key, 3); got != 3 {
					t.Fatalf("%s: %d of 3 admitted", key, got)
				}
				time.Sleep(time.Second)
			}
			ap.Allow(t.Context(), key) // so that it is looked at
			time.Sleep(time.Second)
			const want = 56 * time.Second
			d := ap.Allow(t.Context(), key)
			if d.Allowed || d.RetryAfter > want || d.RetryAfter < want-50*time.Millisecond {
				t.Errorf("%s: %+v, want it after %v", key, d, want)
			}
		}
		if err := ap.Reset(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		if got := admitted(t, ap, "k", 10); got != 9 {
			t.Errorf("%d admitted after a reset, want 9", got)
		}
		time.Sleep(time.Second)
	})
}

// step is what a region is asked for at a time.
type step struct {
	at     time.Duration
	region string
	asks   int
	admits int
}

// TestLateLooks: what is known is of the look that was sent last, also where the answer to an earlier one comes after
// its answer, and for a window from when the answer has come. What is withheld by a look that was sent long ago is
// looked at again. A client is told when the first unit leaves, however long the answer took.
func TestLateLooks(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name  string
		late  string             // the region whose answers are late
		looks [][2]time.Duration // how long they take there and back; the answers to further ones get lost
		steps []step
		took  time.Duration // by the last step, unless 0
		again time.Duration // when a client may ask that it has refused
	}{
		{"answers in another order", "us", [][2]time.Duration{{0, 1500 * ms}, {0, 0}}, []step{
			{0, "ap", 1, 1}, {250 * ms, "us", 5, 5}, {300 * ms, "ap", 1, 1}, {1700 * ms, "ap", 3, 1},
		}, 150 * ms, time.Minute},
		{"units from before the script ran", "us", [][2]time.Duration{{s, 0}}, []step{
			{0, "ap", 1, 1}, {900 * ms, "us", 5, 5}, {time.Minute + 500*ms, "ap", 5, 4},
		}, 150 * ms, time.Minute + 900*ms},
		{"units of a window ago", "us", [][2]time.Duration{{0, 0}}, []step{
			{0, "us", 5, 5}, {0, "ap", 1, 1}, {time.Minute + 500*ms, "ap", 9, 6}, // all but the share of us
		}, 300 * ms, 2*time.Minute + 500*ms},
		{"units that leave while the answer comes", "us", [][2]time.Duration{{100 * ms, s}, {0, 0}}, []step{
			{0, "us", 5, 5}, {time.Minute - 500*ms, "ap", 1, 1}, {time.Minute + 700*ms, "ap", 8, 8},
		}, 0, 0},
		{"no answer from one region", "eu", nil, []step{{0, "ap", 3, 3}, {100 * ms, "ap", 5, 3}}, 150 * ms,
			time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			sc := newScene()
			var looks atomic.Int64
			lookAt := func(ctx context.Context, call storetest.Call) (core.Decision, error) {
				if call.Verb != "Usage" {
					return call.Next(ctx)
				}
				n := int(looks.Add(1))
				if n > len(c.looks) {
					<-ctx.Done()
					return core.Decision{}, context.Cause(ctx)
				}
				time.Sleep(c.looks[n-1][0])
				d, err := call.Next(ctx)
				time.Sleep(c.looks[n-1][1])
				return d, err
			}
			limiters := map[string]*core.Limiter{"us": sc.limiter(t, Config{Here: "us"}, core.PerMinute(9))}
			sc.stores[c.late] = storetest.Wrap(sc.stores[c.late], lookAt)
			limiters["ap"] = core.Must(core.New(core.Config{
				Name: "api", Store: newStore(t, Config{Here: "ap", Stores: sc.stores}), Timeout: 100 * ms,
				Limits: []core.Limit{core.PerMinute(9)}, Observer: core.Silent,
			}))
			began := time.Now()
			var asked time.Time
			var d core.Decision
			for _, step := range c.steps {
				time.Sleep(step.at - time.Since(began))
				asked = time.Now()
				admits := 0
				for range step.asks {
					if d = limiters[step.region].Allow(t.Context(), "k"); d.Allowed {
						admits++
					}
				}
				if admits != step.admits {
					t.Errorf("%s: after %v %s admits %d, want %d", c.name, step.at, step.region, admits, step.admits)
				}
			}
			again := time.Since(began) + d.RetryAfter
			if took := time.Since(asked); c.took > 0 && took != c.took || !d.Allowed && again != c.again {
				t.Errorf("%s: it took %v, and may ask at %v, want %v and %v", c.name, took, again, c.took, c.again)
			}
			time.Sleep(5 * s)
		})
	}
}

// TestSilentAsked: a region that is silent is asked one question at a time, however many clients are busy.
func TestSilentAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene()
		s.silent["us"] = true
		calls := s.count()
		l := s.limiter(t, Config{Here: "ap"}, core.PerMinute(9000))
		ask := func(rounds int, cost int64) {
			for range rounds {
				for client := range 10 {
					l.AllowN(t.Context(), fmt.Sprint(client), cost)
				}
				time.Sleep(300 * ms)
			}
			synctest.Wait()
		}
		ask(1, 225) // a twentieth, shared by two regions
		ask(10, 1)
		before := calls["Usage us"]
		ask(15, 1) // 4.5 s
		if asked := calls["Usage us"] - before; before < 50 || asked < 1 || asked > 3 {
			t.Errorf("asked %d times, and %d times while silent, want 1 to 3", before, asked)
		}
		time.Sleep(5 * time.Second)
	})
}

// TestSilentKnown: a silent region withholds what is known of it or its share, whichever is more, and not both.
func TestSilentKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene()
		ap := s.limiter(t, Config{Here: "ap"}, core.PerMinute(9))
		us := s.limiter(t, Config{Here: "us"}, core.PerMinute(9))
		leaves := map[int]int{5: 4, 1: 6}
		for used := range leaves {
			admitted(t, us, fmt.Sprint(used), used)
		}
		time.Sleep(time.Second)
		for range 2 {
			for used := range leaves {
				admitted(t, ap, fmt.Sprint(used), 1)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			s.down["us"] = errors.New("refused")
		}
		time.Sleep(2 * time.Second)
		for used, want := range leaves {
			if got := 2 + admitted(t, ap, fmt.Sprint(used), 9); got != want {
				t.Errorf("%d admitted beside %d in a region that is silent, want %d", got, used, want)
			}
		}
		time.Sleep(5 * time.Second)
	})
}

// TestHome: a client's home has all of its limit, also while the others are silent, and another region none of it.
func TestHome(t *testing.T) {
	for home, want := range map[string]int{"ap": 9, "us": 0, "": 3} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene()
			s.silent["eu"], s.silent["us"] = true, true
			l := s.limiter(t, Config{Here: "ap", Home: func(string) string { return home }}, core.PerHour(9))
			admitted(t, l, "another", 1)
			for range 10 { // until they are silent
				admitted(t, l, "another", 1)
				time.Sleep(300 * ms)
			}
			if got := admitted(t, l, "k", 10); got != want {
				t.Errorf("at home in %q: %d admitted in ap, want %d", home, got, want)
			}
			time.Sleep(5 * time.Second)
		})
	}
}

// TestRules: a client under one rule is not what is known of it under another.
func TestRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene()
		admitted(t, s.limiter(t, Config{Here: "us"}, core.PerMinute(9)), "k", 9)
		store := newStore(t, Config{Here: "ap", Stores: s.stores})
		for i, want := range []int{9, 3} { // what is asked at first is a share
			name := []string{"other", "api"}[i]
			l := core.Must(core.New(core.Config{
				Name: name, Store: store, Limits: []core.Limit{core.PerMinute(9)}, Observer: core.Silent,
			}))
			got := admitted(t, l, "k", 3)
			time.Sleep(time.Second)
			if got += admitted(t, l, "k", 9); got != want {
				t.Errorf("%s: %d admitted, want %d", name, got, want)
			}
		}
		time.Sleep(time.Second)
	})
}

// TestClock: a refusal by what is known shows the time of the own region's server, also when a look there was long
// under way. Clocks whose pace is other by a thousandth are apart by 1 ms after a second.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrio(false, false)
		local := func(way time.Duration) {
			tr.mu.Lock()
			defer tr.mu.Unlock()
			tr.ways[0][0] = way
		}
		tr.burst(1, 100)
		time.Sleep(time.Second)
		tr.burst(0, 40)
		time.Sleep(ms)
		local(350 * ms)
		time.Sleep(time.Second)
		local(100 * time.Microsecond)
		d, err := tr.processes[0].Take(t.Context(), core.Ask{Key: served, Cost: 1})
		now := time.UnixMicro(tr.servers[0].Now())
		if err != nil || d.Allowed || d.Source != core.SourceRemembered || d.At.Sub(now).Abs() > 5*ms {
			t.Errorf("%+v, %v, want a refusal at %v", d, err, now)
		}
		time.Sleep(time.Hour)
	})
	var c clock
	for _, read := range [][4]time.Duration{ // shown, asked, came, and by how much the clock is ahead then
		{100, 0, 10, 90}, {110, 10, 15, 95}, {1000, 20, 990, 95}, {130, 30, 31, 99}, {60, 40, 45, 20}, {65, 46, 48, 19},
	} {
		if c.read(read[0], read[1], read[2]); c.ahead.Load() != int64(read[3]) {
			t.Errorf("%v: ahead by %d", read, c.ahead.Load())
		}
	}
}

// TestLostLook: a look that gets lost does not make a region silent that has answered since.
func TestLostLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene()
		store := newStore(t, Config{Here: "ap", Stores: s.stores})
		l := core.Must(core.New(core.Config{
			Name: "api", Store: store, Limits: []core.Limit{core.PerMinute(90)}, Observer: core.Silent,
		}))
		s.silent["us"] = true
		for range 30 {
			l.AllowN(t.Context(), "k", 3)
			time.Sleep(100 * ms)
			synctest.Wait()
			s.silent["us"] = false
			if since := store.Stats().Regions[2].SilentSince; !since.IsZero() {
				t.Fatalf("silent since %v, at %v", since, time.Now())
			}
		}
		time.Sleep(5 * time.Second)
	})
}

// TestAskedFor: a request that wants more than its region may use waits for the regions that answer, and not for one
// that is silent, also while that is asked whether it is back.
func TestAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrio(false, false)
		tr.cutOff(2, true)
		p := tr.processes[0]
		for range 20 { // until it is silent
			p.take(1, 500*ms)
			time.Sleep(300 * ms)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		tr.used, tr.longest = nil, 0
		for range 3 {
			tr.burst(0, 100)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if got := len(tr.used); got != 66 || tr.longest < 150*ms || tr.longest > 161*ms {
			t.Errorf("%d admitted, in %v, want all but the share of 34, after one look", got, tr.longest)
		}
		time.Sleep(time.Hour)
	})
}
