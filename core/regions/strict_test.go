package regions

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
)

// TestShares: the shares of all regions sum to the limit, and the last region has the largest.
func TestShares(t *testing.T) {
	for regions := 1; regions <= 10; regions++ {
		for n := int64(1); n <= 200; n++ {
			var sum, most int64
			for i := range regions {
				most = max(most, share(n, i, regions))
				sum += share(n, i, regions)
			}
			last, up := share(n, regions-1, regions), (n+int64(regions)-1)/int64(regions)
			if sum != n || last != most || last != up {
				t.Fatalf("%d in %d regions: %d in all, %d at most, the last %d", n, regions, sum, most, last)
			}
		}
	}
}

// scene is three regions in memory, of which some may be down or silent.
type scene struct {
	stores map[string]core.Store
	down   map[string]error
	silent map[string]bool
	notice string
}

func newScene() *scene {
	s := &scene{stores: three(), down: map[string]error{}, silent: map[string]bool{}}
	for name, store := range s.stores {
		s.stores[name] = storetest.Wrap(store, func(ctx context.Context, call storetest.Call) (core.Decision, error) {
			if s.silent[name] {
				ctx, cancel := call.Ask.Context(ctx)
				defer cancel()
				<-ctx.Done()
				return core.Decision{}, context.Cause(ctx)
			}
			if err := s.down[name]; err != nil {
				return core.Decision{}, err
			}
			return call.Next(ctx)
		})
	}
	return s
}

// limiter returns a limiter of a region.
func (s *scene) limiter(t *testing.T, c Config, limits ...core.Limit) *core.Limiter {
	t.Helper()
	c.Stores = s.stores
	l, err := core.New(core.Config{
		Name: "api", Store: newStore(t, c), Limits: limits, OnStoreError: core.FailClosed, Timeout: time.Second,
		Observer: observer{&s.notice},
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// observer keeps the code of the latest notice.
type observer struct{ code *string }

func (observer) Observe(context.Context, core.Event)       {}
func (o observer) Notice(_ context.Context, n core.Notice) { *o.code = n.Code }

// TestStrictTurns: a client gets all of its limit wherever it asks, its own region's share first, and is told by each
// decision which region has counted; what is given back goes there.
func TestStrictTurns(t *testing.T) {
	for here, want := range map[string][]string{
		"ap": {"ap", "ap", "eu", "eu", "eu", "us", "us", "us"}, "us": {"us", "us", "us", "ap", "ap", "eu", "eu", "eu"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene()
			l := s.limiter(t, Config{Here: here, Strict: true}, core.PerDay(8))
			for range 2 {
				s.turns(t, l, want)
			}
			if d := l.AllowN(t.Context(), "k", 3); d.Region == "ap" || !d.Allowed {
				t.Errorf("%s: 3 units of shares of 2, 3 and 3: %+v", here, d)
			}
		})
	}
}

// turns takes all of the limit, a unit a second, by the regions that are wanted, and gives it back.
func (s *scene) turns(t *testing.T, l *core.Limiter, want []string) {
	t.Helper()
	var got []string
	var held []*core.Reservation
	for range want {
		r := l.Reserve(t.Context(), core.Request{Key: "k", Cost: 1})
		if got, held = append(got, r.Decision.Region), append(held, r); !r.Decision.Allowed {
			t.Fatalf("%+v", r.Decision)
		}
		time.Sleep(time.Second)
	}
	next := 24*time.Hour - time.Duration(len(want))*time.Second
	d := l.Allow(t.Context(), "k")
	if !slices.Equal(got, want) || d.Allowed || d.Err != nil || d.Limit.Requests != 8 || d.RetryAfter != next {
		t.Errorf("admitted by %v, want %v; then %+v, want it after %v", got, want, d, next)
	}
	uses, err := l.Usage(t.Context(), "k")
	if err != nil || uses[0].Used != 8 || uses[0].ResetAfter != next {
		t.Errorf("%+v, %v, want 8 used, and fewer after %v", uses, err, next)
	}
	for _, r := range held {
		if n, err := r.Return(t.Context(), 1); n != 1 || err != nil {
			t.Errorf("%d given back, %v", n, err)
		}
	}
}

// TestStrictRetryAfter: of the refusals of all regions the one that ends first is told, whichever is asked first.
func TestStrictRetryAfter(t *testing.T) {
	for _, order := range [][]string{{"eu", "ap", "us"}, {"us", "eu", "ap"}, {"ap", "us", "eu"}} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene()
			for _, here := range order {
				got := admitted(t, s.limiter(t, Config{Here: here, Strict: true}, core.PerDay(9)), "k", 3)
				if got != 3 {
					t.Errorf("%s: %d of 3 admitted", here, got)
				}
				time.Sleep(time.Second)
			}
			d := s.limiter(t, Config{Here: "ap", Strict: true}, core.PerDay(9)).Allow(t.Context(), "k")
			if want := 24*time.Hour - 3*time.Second; d.Allowed || d.RetryAfter != want {
				t.Errorf("%v: %+v, want it after %v", order, d, want)
			}
		})
	}
}

// TestStrictFaults: a region that is down or silent has refused, and the others are asked all the same, in time. Only
// the first request waits for it, until it has answered a question that counts nothing.
func TestStrictFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene()
		l := s.limiter(t, Config{Here: "ap", Strict: true}, core.PerDay(8))
		s.silent["ap"], s.down["eu"] = true, errors.New("refused")
		for i := range 5 {
			began := time.Now()
			d := l.Allow(t.Context(), "k")
			took, want := time.Since(began), time.Duration(0)
			if i == 0 {
				want = 500 * ms
			}
			if d.Err != nil || d.Allowed != (i < 3) || took != want {
				t.Errorf("request %d, with us alone, which has a share of 3: %+v after %v, want %v", i, d, took, want)
			}
		}
		time.Sleep(checkTimeout) // for the questions that are under way
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

// TestStrictCut: in a cut a refusal takes what the regions need that answer, but for the first one, wherever the region
// stands in the order. When the region is back, a request that all others refuse is admitted by it.
func TestStrictCut(t *testing.T) {
	for cut := 1; cut < 3; cut++ {
		synctest.Test(t, func(t *testing.T) {
			tr := newTrio(true, false)
			p := tr.processes[0]
			ask := func() (d core.Decision, took time.Duration) {
				began := time.Now()
				d, err := p.Take(t.Context(), core.Ask{Key: served, Cost: 1, Timeout: 500 * ms})
				if err != nil {
					t.Error(err)
				}
				return d, time.Since(began)
			}
			tr.cutOff(cut, true)
			slow := 0
			for range 80 { // more than the shares of the others
				if _, took := ask(); took > 151*ms {
					slow++
				}
			}
			if d, _ := ask(); d.Allowed || slow > 1 {
				t.Errorf("region %d is cut off: %+v, and %d requests took longer than a round trip, want 1", cut, d, slow)
			}
			tr.cutOff(cut, false)
			time.Sleep(silence)
			ask()
			time.Sleep(200 * ms)
			if d, took := ask(); !d.Allowed || tr.names[d.Region] != cut || took > 301*ms {
				t.Errorf("region %d is back: %+v after %v", cut, d, took)
			}
			time.Sleep(time.Hour)
		})
	}
}

// TestStrictNever: what exceeds every share never passes, and a notice says so; what exceeds some goes to another. A
// limit below the number of regions is the last ones'. A charge counts in its own region.
func TestStrictNever(t *testing.T) {
	s := newScene()
	l := s.limiter(t, Config{Here: "ap", Strict: true}, core.PerDay(8), core.PerHour(100))
	if d := l.AllowN(t.Context(), "k", 4); d.Allowed || d.RetryAfter != core.Never || s.notice != "region-shares" {
		t.Errorf("4 of 8: %+v, a notice %q", d, s.notice)
	}
	ten := []core.Limit{core.PerDay(12), core.PerHour(100)}
	for _, want := range []string{"ap", "eu", "us", ""} {
		d := l.Decide(t.Context(), core.Request{Key: "k", Cost: 4, Limits: ten})
		if d.Region != want && d.Allowed || d.Allowed != (want != "") || d.Limit.Requests != 12 || d.Err != nil {
			t.Errorf("4 of 12 for this request: %+v, want it admitted by %q", d, want)
		}
	}
	one := s.limiter(t, Config{Here: "ap", Strict: true}, core.PerDay(1).Named("one"))
	for _, want := range []bool{true, false} {
		if d := one.Allow(t.Context(), "k"); d.Allowed != want || d.Err != nil || d.Region != "us" {
			t.Errorf("1 a day: %+v, want it admitted: %v", d, want)
		}
	}
	if d := l.Charge(t.Context(), "charged", 99); !d.Allowed || d.Region != "ap" {
		t.Errorf("%+v", d)
	}
}

// TestConfig: what is wrong with a Config is an error that says what to give.
func TestConfig(t *testing.T) {
	same := memstore.New()
	for want, c := range map[string]Config{
		"has 0 regions":                      {},
		`Here is "asia": give one`:           {Here: "asia", Stores: three(), Strict: true},
		"Strict and LookEvery or MaxClients": {Here: "eu", Stores: three(), Strict: true, MaxClients: 1},
		"has Strict and LookEvery":           {Here: "eu", Stores: three(), Strict: true, LookEvery: time.Second},
		"LookEvery is 19.999999ms: give":     {Here: "eu", Stores: three(), LookEvery: minLookEvery - 1},
		"LookEvery is 10.000000001s":         {Here: "eu", Stores: three(), LookEvery: maxLookEvery + 1},
		"MaxClients is -1: give":             {Here: "eu", Stores: three(), MaxClients: -1},
		`the name ""`:                        {Stores: map[string]core.Store{"": same}},
		`"eu" is nil: give one`:              {Here: "eu", Stores: map[string]core.Store{"eu": nil}},
		`"eu" and "us" have the same`:        {Here: "eu", Stores: map[string]core.Store{"eu": same, "us": same}},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to say %q", err, want)
		}
	}
	for _, unmade := range []*Store{nil, {}} {
		if _, err := unmade.Bind(core.Binding{}); err != errUnmade {
			t.Errorf("%v, want %v", err, errUnmade)
		}
	}
	many := map[string]core.Store{strings.Repeat("x", 64): same}
	for len(many) < maxRegions {
		many[strconv.Itoa(len(many))] = memstore.New()
	}
	for _, every := range []time.Duration{minLookEvery, maxLookEvery} {
		newStore(t, Config{Here: "1", Stores: many, LookEvery: every})
	}
	for _, name := range []string{"another", strings.Repeat("x", 65)} {
		stores := map[string]core.Store{name: memstore.New()}
		if len(name) < 64 {
			maps.Copy(stores, many)
		}
		if _, err := New(Config{Here: name, Stores: stores}); err == nil {
			t.Errorf("%d regions, one of the name %q, are no error", len(stores), name)
		}
	}
	mars := Config{Here: "eu", Strict: true, Home: func(string) string { return "mars" }}
	l := newScene().limiter(t, mars, core.PerDay(1))
	if d := l.Allow(t.Context(), "k"); d.Err == nil || !strings.Contains(d.Err.Error(), `no region "mars"`) {
		t.Errorf("%+v", d)
	}
	alone, err := newStore(t, Config{Here: "eu", Stores: map[string]core.Store{"eu": same}, Strict: true}).Bind(
		core.Binding{Limits: []core.Limit{core.PerDay(1).Named("1d")}})
	if _, immediate := alone.(core.Immediate); err != nil || !immediate {
		t.Errorf("one region is not its own store: %T, %v", alone, err)
	}
}
