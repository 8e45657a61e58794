package regions

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
)

// TestCheck: a check tells of regions that are down or too far away, and of processes with other names or the other
// mode.
func TestCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture()
		check := func(what, want string, c Config) {
			t.Helper()
			c.Local, c.Stores = cmp.Or(c.Local, "ap"), s.stores
			err := core.Must(New(c)).Check(t.Context())
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want it to say %q", what, err, want)
			}
		}
		for range 3 {
			check("nothing wrong", "", Config{})
		}
		check("the other mode", "3 checks of the last hour", Config{Strict: true})
		for want, strict := range map[string]bool{"region-names": true, "": false} {
			s.notice = ""
			if time.Sleep(2 * time.Hour); want != "" {
				check("nothing wrong", "", Config{})
			}
			s.limiter(Config{Local: "ap", Strict: strict}, core.PerDay(9)).Allow(t.Context(), "k")
			if synctest.Wait(); s.notice != want {
				t.Errorf("the notice is %q, want %q", s.notice, want)
			}
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		s.stores["us"] = slow(s.stores["us"])
		check("far away", `region "us": a round trip takes 60ms, and Config.Timeout of a limiter is 100ms: it should `+
			"be at least 120ms", Config{})
		check("here", "", Config{Local: "us"})
		check("far away for polls", "regions.Config.PollInterval is 50ms: it should be at least 60ms",
			Config{PollInterval: 50 * ms})
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		s.down["eu"] = errors.New("no route")
		check("down", `region "eu": no route`, Config{})
	})
}

// TestCheckNames: different names stay different when they are joined.
func TestCheckNames(t *testing.T) {
	for _, c := range [][2][]string{
		{{"a b", "c"}, {"a", "b", "c"}}, {{`a" "b`, "c"}, {"a", "b", "c"}}, {{`a\`, `"b`, "c"}, {`a\ "b`, "c"}},
		{{"a\xff", "c"}, {"a\ufffd", "c"}}, {{"strict=true", "c"}, {"c", "strict=false"}},
	} {
		same := memstore.New() // one region knows both
		for i, want := range []string{"", `region "c": 1 checks of the last hour`} {
			stores := map[string]core.Store{}
			for _, name := range c[i] {
				stores[name] = memstore.New()
			}
			stores["c"] = same
			err := core.Must(New(Config{Local: "c", Stores: stores})).Check(t.Context())
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", c, err, want)
			}
		}
	}
}

// TestCheckParts: what a check says of a store that fails, and of the time of a round trip beside the shortest timeout.
func TestCheckParts(t *testing.T) {
	fails := func(store core.Store, verb, key string) core.Store {
		return storetest.Wrap(store, func(ctx context.Context, c storetest.Call) (core.Decision, error) {
			if c.Verb == verb && strings.HasPrefix(c.Key, key) {
				return core.Decision{}, errDown
			}
			return c.Next(ctx)
		})
	}
	for _, verb := range []string{"Take", "Usage"} {
		for _, key := range []string{"all", "strict"} {
			stores := three()
			stores["us"] = fails(stores["us"], verb, key)
			if err := core.Must(New(Config{Local: "ap", Stores: stores})).Check(t.Context()); !errors.Is(err, errDown) {
				t.Errorf("a %s of %q fails: %v", verb, key, err)
			}
		}
	}
	stores := three()
	stores["us"] = bindFunc(func(core.Binding) (core.Ledger, error) { return nil, errDown })
	s := core.Must(New(Config{Local: "ap", Stores: stores}))
	_, err := s.Bind(core.Binding{Name: "api", Limits: []core.Limit{core.PerDay(8).Named("limit")}})
	for _, err := range []error{err, s.Check(t.Context())} {
		if !errors.Is(err, errDown) || !strings.HasPrefix(err.Error(), `sash: region "us": down`) {
			t.Errorf("a region that cannot be bound: %v", err)
		}
	}
	s = core.Must(New(Config{Local: "ap", Stores: three(), Strict: true}))
	for _, c := range []struct{ timeout, shortest time.Duration }{
		{0, core.DefaultTimeout}, {400 * ms, 400 * ms}, {300 * ms, 300 * ms}, {350 * ms, 300 * ms}, {0, 300 * ms},
		{1, 1},
	} {
		b := core.Binding{Limits: []core.Limit{core.PerDay(8).Named("limit")}, Timeout: c.timeout}
		core.Must(s.Bind(b))
		if local, far := s.checkRoundTrip(c.shortest/3), s.checkRoundTrip(c.shortest/3+1); local != nil || far == nil {
			t.Errorf("%+v: a third of the shortest timeout: %v; and more: %v", c, local, far)
		}
	}
}

// slow returns a store that takes 60 ms for each call.
func slow(store core.Store) core.Store {
	return storetest.Wrap(store, func(ctx context.Context, c storetest.Call) (core.Decision, error) {
		time.Sleep(60 * ms)
		return c.Next(ctx)
	})
}

// TestCheckConcurrently: checks of the same regions at the same time, and an hour later, find nothing wrong.
func TestCheckConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores, far := three(), map[string]core.Store{}
		for name, store := range stores {
			far[name] = slow(store)
		}
		check := func(stores map[string]core.Store) {
			if err := core.Must(New(Config{Local: "ap", Stores: stores})).Check(t.Context()); err != nil &&
				strings.Contains(err.Error(), "checks of the last hour") {
				t.Errorf("%v later: %v", time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), err)
			}
		}
		for range 2 {
			go check(far)
			for _, wait := range []time.Duration{90 * ms, 110 * ms, time.Hour - 320*ms} {
				time.Sleep(wait)
				check(stores)
			}
		}
		time.Sleep(time.Second)
	})
}
