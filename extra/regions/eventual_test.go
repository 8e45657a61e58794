package regions

import (
	"context"
	"errors"
	"hash/maphash"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/storetest"
)

// TestCalls: a decision is one call of the own region's store. A client far below its limit is not polled, a busy
// one once in a PollInterval.
func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture()
		var mu sync.Mutex
		calls := map[string]int{}
		for name, store := range s.stores {
			s.stores[name] = storetest.Wrap(store, func(ctx context.Context, c storetest.Call) (core.Decision, error) {
				mu.Lock()
				defer mu.Unlock()
				calls[strings.TrimSuffix(c.Verb+" "+name+" "+c.Rule.Name, " api")]++
				return c.Next(ctx)
			})
		}
		l := s.limiter(Config{Local: "ap"}, core.PerMinute(1000))
		admitted(t, l, "quiet", 24) // less than a twentieth, shared by two regions
		time.Sleep(time.Second)
		synctest.Wait()
		if calls["Take ap"] != 24 || len(calls) != 1+6 { // the names are checked by a Take and a Usage in each region
			t.Errorf("%v, want 24 local decisions only", calls)
		}
		clear(calls)
		for range 100 {
			admitted(t, l, "busy", 5)
			time.Sleep(10*time.Millisecond + 1)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		// polls start in the fifth round, with one more in each tenth or so
		if mayAdmit, there := calls["Take ap"], calls["Usage us"]; mayAdmit != 500 || there != 5 || len(calls) != 4 {
			t.Errorf("%v, want 500 local decisions, and 5 polls", calls)
		}
	})
}

// TestSilent: a region that has not answered for 2 s withholds its share, or what is known of it if that is more,
// until it answers. Before, it withholds what is known, for a window from the answer on.
func TestSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture()
		ap := s.limiter(Config{Local: "ap"}, core.PerMinute(9))
		us := s.limiter(Config{Local: "us"}, core.PerMinute(9))
		step := func(what string, wait time.Duration, want int) {
			t.Helper()
			time.Sleep(wait)
			if got := admitted(t, ap, "k", 12); got != want {
				t.Errorf("%s: %d admitted, want %d", what, got, want)
			}
			synctest.Wait() // for polls
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

// TestRetryAfter: the RetryAfter of a client whose limit others have used up is the time until the first unit leaves,
// in whichever region that is, and passes then.
func TestRetryAfter(t *testing.T) {
	for _, order := range [][]string{{"ap", "eu", "us"}, {"eu", "us", "ap"}, {"us", "eu", "ap"}} {
		synctest.Test(t, func(t *testing.T) {
			s := newFixture()
			limiters := map[string]*core.Limiter{}
			for _, local := range order {
				limiters[local] = s.limiter(Config{Local: local}, core.PerMinute(9))
				if got := admitted(t, limiters[local], "k", 3); got != 3 {
					t.Fatalf("%s: %d of 3 admitted", local, got)
				}
				time.Sleep(time.Second)
			}
			ap := limiters["ap"]
			ap.Allow(t.Context(), "k") // so that it is polled
			time.Sleep(time.Second)
			const want = 56 * time.Second
			d := ap.Allow(t.Context(), "k")
			if d.Allowed || d.Limit.Requests != 9 || d.Remaining != 0 || d.Region != "ap" || d.RetryAfter > want ||
				d.RetryAfter < want-50*ms || time.Until(d.At) > time.Second {
				t.Errorf("%v: %+v, want it after %v", order, d, want)
			}
			time.Sleep(d.RetryAfter)
			if got := admitted(t, ap, "k", 6); got != 3 {
				t.Errorf("%v: %d admitted then, want 3", order, got)
			}
			settle()
		})
	}
}

// TestClock: a refusal without a request shows the time of the own region's server, also when a poll there was long
// under way. Clocks whose pace is other by a thousandth are apart by 1 ms after a second.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrio(false, false)
		localUsed := func(way time.Duration) {
			tr.mu.Lock()
			defer tr.mu.Unlock()
			tr.delays[0][0] = way
		}
		tr.burst(1, 100)
		time.Sleep(time.Second)
		tr.burst(0, 40)
		time.Sleep(ms)
		localUsed(350 * ms)
		time.Sleep(time.Second)
		localUsed(100 * time.Microsecond)
		d := tr.processes[0].Take(t.Context(), core.Ask{Key: clientKey, Cost: 1})
		now := time.UnixMicro(tr.servers[0].Now())
		if d.Err != nil || d.Allowed || d.Source != core.SourceCached || d.At.Sub(now).Abs() > 5*ms {
			t.Errorf("%+v, want a refusal at %v", d, now)
		}
		settle()
	})
	var c clock
	for _, read := range [][4]time.Duration{ // reading, start, received, and the offset of the clock after it
		{100, 0, 10, 90}, {110, 10, 15, 95}, {1000, 20, 990, 95}, {130, 30, 31, 99}, {60, 40, 45, 20}, {65, 46, 48, 19},
	} {
		if c.read(read[0], read[1], read[2]); c.ahead.Load() != int64(read[3]) {
			t.Errorf("%v: ahead by %d", read, c.ahead.Load())
		}
	}
}

// TestEventualAnswers: the requests that poll and wait for the poll, and the ledgers that decide them.
func TestEventualAnswers(t *testing.T) {
	refused := core.Decision{RetryAfter: 5, Limit: core.Limit{Name: "limit", Requests: 8}}
	never := core.Decision{RetryAfter: core.Never, Limit: refused.Limit}
	allowed := core.Decision{Allowed: true, Limit: core.Limit{Name: "limit", Requests: 8}}
	charge, other := &core.Override{Charge: true}, &core.Override{Limits: []core.Limit{core.PerDay(6).Named("limit")}}
	for name, c := range map[string]struct {
		ask    core.Ask
		home   string
		answer stub
		whole  int // calls of the local region
		share  int
		usages int // polled clients
	}{
		"a peek":        {core.Ask{Cost: 1, Peek: true}, "", stub{d: allowed}, 1, 0, 0},
		"a cost of 0":   {core.Ask{}, "", stub{d: allowed}, 1, 0, 0},
		"a charge":      {core.Ask{Cost: 1, Override: charge}, "", stub{d: allowed}, 1, 0, 0},
		"a request":     {core.Ask{Cost: 1}, "", stub{d: allowed}, 0, 1, 1},
		"above a share": {core.Ask{Cost: 3}, "", stub{d: allowed}, 1, 0, 1},
		"other limits":  {core.Ask{Cost: 1, Override: other}, "", stub{d: allowed}, 1, 0, 1},
		"above all":     {core.Ask{Cost: 9}, "", stub{d: never}, 1, 0, 0},
		"refused":       {core.Ask{Cost: 1}, "", stub{d: refused}, 1, 1, 1},
		"at home":       {core.Ask{Cost: 1}, "ap", stub{d: allowed}, 1, 0, 1},
		"far from home": {core.Ask{Cost: 1}, "eu", stub{d: allowed}, 1, 0, 1},
		"a failure":     {core.Ask{Cost: 1}, "", stub{err: errDown}, 0, 1, 0},
		"failing peek":  {core.Ask{Cost: 1, Peek: true}, "", stub{err: errDown}, 1, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, whole, shares := newStubRule(Config{Home: func(string) string { return c.home }})
			for i := range whole {
				*whole[i], *shares[i] = c.answer, c.answer
				whole[i].reset = time.Second
			}
			e := &eventual{r, [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
			c.ask.Key = "k"
			d := e.Take(t.Context(), c.ask)
			got := [3]int{whole[0].mayAdmit, shares[0].mayAdmit, r.store.Stats().Clients}
			if want := [3]int{c.whole, c.share, c.usages}; !errors.Is(d.Err, c.answer.err) || got != want {
				t.Errorf("%s: %v after %d, want %v after %d", name, d.Err, got, c.answer.err, want)
			}
			if answer := c.answer.d; d.Err == nil &&
				(d.Allowed != answer.Allowed || !d.Allowed && d.RetryAfter != answer.RetryAfter) {
				t.Errorf("%s: %+v", name, d)
			}
			time.Sleep(time.Minute)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		r, whole, shares := newStubRule(Config{Local: "eu", Home: func(string) string { return "ap" }})
		q := &request{rule: r, ask: core.Ask{Cost: 1}, limits: r.binding.Limits, home: 0}
		v := view{short: true, lowered: true, quotas: []quota{{left: 8}}}
		d := q.decide(t.Context(), &v)
		if d.Allowed || d.Err != nil || d.RetryAfter != silentAfter || d.Remaining != 0 ||
			whole[1].calls+shares[1].calls != 0 {
			t.Errorf("far from home, in the first region: %+v, want it after %v", d, silentAfter)
		}
		q.home, v.short = -1, false // a peek where a region is silent
		whole[1].d = allowed
		if d := q.decide(t.Context(), &view{lowered: true, quotas: []quota{{8, 8, 0}}}); d.Err != nil || !d.Allowed {
			t.Errorf("%+v", d)
		}
		q.ask.Cost, whole[1].d.Remaining = 0, 1
		for _, left := range []int64{0, -3} { // nothing is left, or less
			d := q.decide(t.Context(), &view{known: true, lowered: true, quotas: []quota{{left: left, most: left}}})
			if d.Err != nil || !d.Allowed || d.Remaining != 0 {
				t.Errorf("%d left: %+v, want none to remain", left, d)
			}
		}
		if whole[1].calls != 3 || shares[1].calls != 0 {
			t.Errorf("%d calls of the whole limit, %d of the share", whole[1].calls, shares[1].calls)
		}
		d = core.Decision{Allowed: true, Limit: allowed.Limit, Remaining: 6}
		v = view{known: true, short: true, quotas: []quota{{left: 6}}}
		r.store.table.sending = true // no poll is sent while the test reads the table
		usage := q.poll(&v, &d, time.Minute)
		if w := r.store.table.clients[q.holder].poll; usage != nil || w == nil || w.left != 0.75 {
			t.Errorf("a client that is known: %+v, and waits for %v, want a poll and no wait", w, usage)
		}
		time.Sleep(time.Minute)
	})
	r, _, _ := newStubRule(Config{Home: func(string) string { return "mars" }})
	if err := (&eventual{rule: r}).Take(t.Context(), core.Ask{Key: "k", Cost: 1}).Err; err == nil {
		t.Error("at home nowhere")
	}
}

// TestAwait: after a poll a request has the rest of its time.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, _ := newStubRule(Config{})
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(errDown)
		for waits, want := range map[time.Duration]time.Duration{40: 60, 99: 1, 100: 1, 200: 1} {
			q, start := &request{rule: r, ask: core.Ask{Timeout: 100}}, r.store.now()
			time.Sleep(waits)
			if err := q.await(t.Context(), over, start); err != nil && waits < 100 || q.ask.Timeout != want {
				t.Errorf("after %d ns: %v, %d left, want %d", waits, err, q.ask.Timeout, want)
			}
		}
		for timeout, waits := range map[time.Duration]time.Duration{
			0: silentAfter, time.Second: 750 * ms, time.Minute: silentAfter,
		} {
			q, start := &request{rule: r, ask: core.Ask{Timeout: timeout}}, r.store.now()
			err := q.await(t.Context(), nil, start)
			passed, left := r.store.now()-start, q.ask.Timeout
			if err != nil || passed != waits || left != max(0, timeout-waits) {
				t.Errorf("of %v: waits for %v, %v, want %v; then %v are left", timeout, passed, err, waits, left)
			}
		}
		q := &request{rule: r}
		if err := q.await(ended, nil, r.store.now()); err != errDown {
			t.Errorf("%v, want %v", err, errDown)
		}
	})
}

// TestRunPoll: a silent region gets one request at a time, and the poll does not wait for it. No other region is polled
// if the own one fails.
func TestRunPoll(t *testing.T) {
	r, whole, _ := newStubRule(Config{})
	us := r.store.regions[2]
	for _, c := range []struct {
		silent, probing bool
		own             error
		eu, us          int
	}{
		{eu: 1, us: 1}, {silent: true, eu: 1, us: 1}, {silent: true, probing: true, eu: 1},
		{probing: true, eu: 1, us: 1}, {own: errDown},
	} {
		us.failing.Store(0)
		if c.silent {
			us.failing.Store(1)
			r.store.epoch = time.Now().Add(-time.Hour)
		}
		us.probing.Store(c.probing)
		whole[0].err, whole[1].calls, whole[2].calls = c.own, 0, 0
		w := &poll{client: &client{usages: make([]usage, 2)}}
		w.client.poll = w
		if r.runPoll(w); w.client.poll != nil || whole[1].calls != c.eu || whole[2].calls != c.us {
			t.Errorf("%+v: %d calls of eu, %d of us, and the poll is %+v", c, whole[1].calls, whole[2].calls, w)
		}
		if us.probing.Load() != c.probing || us.silent(r.store.now()) != (c.silent && c.probing) {
			t.Errorf("%+v: probing: %v", c, us.probing.Load())
		}
	}
}
