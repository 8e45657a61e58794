package regions

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

// TestShortest: a check is about the limiter that waits for the shortest time.
func TestShortest(t *testing.T) {
	s := newStore(t, Config{Here: "ap", Stores: three()})
	for _, timeout := range []time.Duration{0, 3, 1, 2, 0} {
		b := core.Binding{Name: "api", Limits: []core.Limit{core.PerDay(8).Named("limit")}, Timeout: timeout}
		if _, err := s.Bind(b); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.shortest.Load(); got != 1 {
		t.Errorf("%d, want 1", got)
	}
	for _, unmade := range []*Store{nil, {}} {
		if err := unmade.Check(t.Context()); err != errUnmade {
			t.Errorf("%v, want %v", err, errUnmade)
		}
	}
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
				Name: name, Store: s, Limits: []core.Limit{core.PerDay(90)}, Timeout: time.Second,
				Observer: core.Silent,
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
		for _, unmade := range []*Store{nil, {}} {
			if none := unmade.Stats(); none.Regions != nil {
				t.Errorf("%+v", none)
			}
		}
	})
}

// TestRegionAnswers: a region is silent 2 s after it has failed. A question that gets lost does not fail a region that
// has answered since.
func TestRegionAnswers(t *testing.T) {
	var r region
	r.answered(errDown, 1, 9)
	r.answered(errDown, 5, 6)
	if r.silent(silence+1) || !r.silent(silence+2) || r.answers() {
		t.Errorf("silent 2 s after it has failed: %v, and later: %v", r.silent(silence+1), r.silent(silence+2))
	}
	r.answered(nil, 2, 20)
	r.answered(errDown, 19, 30)
	if !r.answers() || r.silent(silence*2) {
		t.Error("it has answered, and fails")
	}
	if r.answered(errDown, 20, 30); r.answers() {
		t.Error("it has failed since its answer, and does not")
	}
}
