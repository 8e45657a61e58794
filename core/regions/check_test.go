package regions

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/storetest"
)

// TestCheck: a check tells of regions that are down or too far away, and of processes with other names or the other
// mode.
func TestCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene()
		check := func(what, want string, c Config) {
			t.Helper()
			c.Here, c.Stores = "ap", s.stores
			err := newStore(t, c).Check(t.Context())
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want it to say %q", what, err, want)
			}
		}
		for range 3 {
			check("nothing wrong", "", Config{})
		}
		check("the other mode", "3 checks of the last hour", Config{Strict: true})
		time.Sleep(2 * time.Hour)
		s.stores["us"] = storetest.Wrap(s.stores["us"], func(ctx context.Context, c storetest.Call) (core.Decision, error) {
			time.Sleep(60 * time.Millisecond)
			return c.Next(ctx)
		})
		check("far away", `region "us": a round trip takes 60ms, and Config.Timeout of a limiter is 100ms: it should be at `+
			"least 120ms", Config{})
		time.Sleep(2 * time.Hour)
		s.down["eu"] = errors.New("no route")
		check("down", `region "eu": no route`, Config{})
	})
}

// TestStats: the stats tell of clients that are looked at, answers, silence, and what other regions admit.
func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene()
		s.down["us"] = errors.New("no route")
		stores := s.stores
		eventual := newStore(t, Config{Here: "ap", Stores: stores})
		strict := newStore(t, Config{Here: "ap", Stores: stores, Strict: true})
		limiter := func(s *Store, name string) *core.Limiter {
			return core.Must(core.New(core.Config{
				Name: name, Store: s, Limits: []core.Limit{core.PerDay(90)}, Timeout: time.Second, Observer: core.Silent,
			}))
		}
		began := time.Now()
		for range 6 {
			limiter(eventual, "a").AllowN(t.Context(), "k", 10)
			limiter(strict, "b").AllowN(t.Context(), "k", 10)
			time.Sleep(time.Second)
		}
		got, exact := eventual.Stats(), strict.Stats()
		eu, us := got.Regions[1], got.Regions[2]
		if got.Clients != 6 || !got.Regions[0].Here || eu.Name != "eu" || !eu.SilentSince.IsZero() ||
			time.Since(eu.Latest) > 2*time.Second || !us.Latest.IsZero() || us.SilentSince.Sub(began) > time.Second ||
			us.SilentSince.IsZero() {
			t.Errorf("%+v", got)
		}
		if exact.Clients != 0 || exact.Regions[1].Spilled != 3 || exact.Regions[0].Spilled != 0 {
			t.Errorf("%+v", exact)
		}
		if none := (*Store)(nil).Stats(); none.Regions != nil {
			t.Errorf("%+v", none)
		}
	})
}
