package regions

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

// TestStrictFaults: if a region is down or silent, the others still decide in time. Only the first request waits for
// the region, until a probe of it is answered.
func TestStrictFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture()
		l := s.limiter(Config{Local: "ap", Strict: true}, core.PerDay(8))
		s.silent["ap"], s.down["eu"] = true, errors.New("refused")
		for i := range 5 {
			start := time.Now()
			d := l.Allow(t.Context(), "k")
			elapsed, want := time.Since(start), time.Duration(0)
			if i == 0 {
				want = 500 * ms
			}
			if d.Err != nil || d.Allowed != (i < 3) || elapsed != want {
				t.Errorf("request %d, to us and its share of 3: %+v after %v, want %v", i, d, elapsed, want)
			}
		}
		time.Sleep(checkTimeout) // for requests in flight
		synctest.Wait()
		s.silent["ap"] = false
		l.Allow(t.Context(), "k")
		synctest.Wait()
		if d := l.Allow(t.Context(), "k"); !d.Allowed || d.Region != "ap" {
			t.Errorf("ap is back: %+v", d)
		}
		synctest.Wait()
		s.silent["ap"], s.silent["us"] = true, true
		if d := l.Allow(t.Context(), "k"); d.Allowed || !errors.Is(d.Err, core.ErrTimeout) {
			t.Errorf("with no region: %+v", d)
		}
		if _, err := l.Usage(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), `region "eu"`) {
			t.Errorf("Usage of a region that is down: %v", err)
		}
		if err := l.Reset(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), `region "eu"`) {
			t.Errorf("Reset of a region that is down: %v", err)
		}
		time.Sleep(checkTimeout)
	})
}

// TestStrictNever: what exceeds every share never passes, and a notice says so; what exceeds some goes to another. A
// limit below the number of regions is the last ones'. A charge counts in its own region.
func TestStrictNever(t *testing.T) {
	s := newFixture()
	l := s.limiter(Config{Local: "ap", Strict: true}, core.PerHour(100), core.PerDay(8))
	if d := l.AllowN(t.Context(), "k", 4); d.Allowed || d.RetryAfter != core.Never || d.Region != "us" ||
		s.notice != "region-shares" {
		t.Errorf("4 of 8: %+v, a notice %q, want us, which has the largest share, to say never", d, s.notice)
	}
	ten := []core.Limit{core.PerHour(100), core.PerDay(12)}
	for _, want := range []string{"ap", "eu", "us", ""} {
		d := l.Decide(t.Context(), core.Request{Key: "k", Cost: 4, Limits: ten})
		if d.Region != want && d.Allowed || d.Allowed != (want != "") || d.Limit.Requests != 12 || d.Err != nil {
			t.Errorf("4 of 12 for this request: %+v, want it admitted by %q", d, want)
		}
	}
	one := s.limiter(Config{Local: "ap", Strict: true}, core.PerDay(1).Named("one"))
	for _, want := range []bool{true, false} {
		if d := one.Allow(t.Context(), "k"); d.Allowed != want || d.Err != nil || d.Region != "us" {
			t.Errorf("1 a day: %+v, want it admitted: %v", d, want)
		}
	}
	for want, by := range map[string]*core.Limiter{"ap": l, "us": one} {
		if d := by.Charge(t.Context(), "charged", 99); !d.Allowed || d.Region != want {
			t.Errorf("%+v, want it charged to %s", d, want)
		}
	}
}

// TestStrictAnswers: a refusal and a failure lead to the next region, and an admission or the end of the caller's
// context is the answer. Of refusals the first to end is the answer, and of failures only the first one.
func TestStrictAnswers(t *testing.T) {
	refuses := func(after time.Duration) stub { return stub{d: core.Decision{RetryAfter: after}} }
	allows, errLeft := stub{d: core.Decision{Allowed: true}}, errors.New("left")
	fails := func(err error) stub { return stub{d: core.Decision{Allowed: true}, err: err} }
	first := errors.New("first")
	for name, c := range map[string]struct {
		results [3]stub
		ends    bool // the context ends during the first call
		timeout time.Duration
		want    core.Decision
		err     error
		calls   int
	}{
		"all fail":             {results: [3]stub{fails(first), fails(errDown), fails(errDown)}, err: first, calls: 3},
		"a refusal, failures":  {[3]stub{refuses(5), fails(errDown), fails(errDown)}, false, 0, refuses(5).d, nil, 3},
		"the first ends first": {[3]stub{refuses(5), refuses(6), refuses(7)}, false, 0, refuses(5).d, nil, 3},
		"the last ends first":  {[3]stub{refuses(7), refuses(6), refuses(5)}, false, 0, refuses(5).d, nil, 3},
		"a failure, admission": {[3]stub{fails(errDown), allows, fails(first)}, false, 0, allows.d, nil, 2},
		"left, refused":        {[3]stub{refuses(5), allows, allows}, true, 0, allows.d, nil, 2},
		"left, failed":         {results: [3]stub{fails(errLeft), allows, allows}, ends: true, err: errLeft, calls: 1},
		"no time":              {results: [3]stub{allows, allows, allows}, timeout: 1, err: core.ErrTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, _, shares := newStubRule(Config{Strict: true})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for i := range shares {
				*shares[i] = c.results[i]
			}
			if c.ends {
				shares[0].leave = cancel
			}
			d := (&strict{r}).Take(ctx, core.Ask{Key: "k", Cost: 1, Timeout: c.timeout})
			calls := shares[0].calls + shares[1].calls + shares[2].calls
			if !errors.Is(d.Err, c.err) || (d.Err == nil) != (c.err == nil) || calls != c.calls {
				t.Errorf("%s: %v after %d calls, want %v after %d", name, d.Err, calls, c.err, c.calls)
			}
			if d.Err == nil && (d.Allowed != c.want.Allowed || d.RetryAfter != c.want.RetryAfter) {
				t.Errorf("%s: %+v, want %+v", name, d, c.want)
			}
		})
	}
}

// TestStrictRecords: the health of a region after a request to it.
func TestStrictRecords(t *testing.T) {
	allows := core.Decision{Allowed: true, Source: core.SourceCounted}
	for name, c := range map[string]struct {
		region int
		answer stub
		left   bool
		noted  [3]bool // it has answered, it has failed, and it is another that has admitted
	}{
		"admitted elsewhere": {1, stub{d: allows}, false, [3]bool{true, false, true}},
		"admitted here":      {0, stub{d: allows}, false, [3]bool{true}},
		"refused":            {1, stub{d: core.Decision{Source: core.SourceCounted}}, false, [3]bool{true}},
		"cached":             {1, stub{d: core.Decision{Source: core.SourceCached}}, false, [3]bool{}},
		"down":               {1, stub{d: allows, err: errDown}, false, [3]bool{1: true}},
		"left":               {1, stub{err: errDown}, true, [3]bool{}},
	} {
		r, _, _ := newStubRule(Config{Strict: true})
		ctx, cancel := context.WithCancel(t.Context())
		if c.left {
			cancel()
		}
		err := (&strict{r}).ask(ctx, core.Ask{Key: "k", Cost: 1}, c.region, &c.answer).Err
		cancel()
		if !errors.Is(err, c.answer.err) || err != nil && !strings.Contains(err.Error(), `region "eu": `) {
			t.Errorf("%s: %v", name, err)
		}
		region := r.store.regions[c.region]
		got := [3]bool{region.latest.Load() > 0, region.failing.Load() > 0, region.spilled.Load() == 1}
		if got != c.noted {
			t.Errorf("%s: %v, want %v", name, got, c.noted)
		}
	}
}

// TestStrictParts: which regions may admit a request, and what time each has.
func TestStrictParts(t *testing.T) {
	r, whole, _ := newStubRule(Config{Strict: true})
	s := &strict{r}
	candidates := func(ask core.Ask, want ...int) {
		t.Helper()
		if got := s.candidates(nil, &ask); !slices.Equal(got, want) {
			t.Errorf("%+v: regions %v, want %v", ask, got, want)
		}
	}
	for _, o := range []*core.Override{nil, {Delay: 1}} {
		candidates(core.Ask{Cost: 2, Override: o}, 0, 1, 2)
		candidates(core.Ask{Cost: 3, Override: o}, 1, 2)
		candidates(core.Ask{Cost: 4, Override: o})
	}
	s.store.regions[1].failing.Store(1)
	candidates(core.Ask{Cost: 2}, 0, 2, 1)
	s.store.regions[0].failing.Store(1)
	candidates(core.Ask{Cost: 2}, 2, 0, 1)
	s.store.regions[0].failing.Store(0)
	s.store.regions[1].failing.Store(0)
	all := &core.Override{Limits: []core.Limit{core.PerDay(300)}}
	r.remotes[0].share = nil
	for _, o := range []*core.Override{{Charge: true}, all} {
		candidates(core.Ask{Cost: 1, Override: o}, 1, 2)
	}
	if n, err := r.Return(t.Context(), core.Refund{Key: "k", Units: 2}); n != 2 || err != nil || whole[0].calls != 1 {
		t.Errorf("gave %d back to a region without a share, %v", n, err)
	}
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			left time.Duration
			last bool
			want time.Duration
			ok   bool
		}{{2, false, 1, true}, {1, true, 1, true}, {1, false, 0, false}, {0, true, 0, false}, {9, true, 9, true}} {
			if got, ok := nextTimeout(time.Second, time.Now().Add(c.left), c.last); got != c.want || ok != c.ok {
				t.Errorf("%+v: %v, %v", c, got, ok)
			}
		}
		if got, ok := nextTimeout(0, time.Now(), false); got != 0 || !ok {
			t.Errorf("without a timeout: %v, %v", got, ok)
		}
	})
}
