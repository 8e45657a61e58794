package regions

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestStats: the stats tell of answers, of silence, and of what other regions admit.
func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, Config{Here: "ap", Stores: three()})
		began := store.epoch
		time.Sleep(time.Minute)
		eu, us := store.regions[1], store.regions[2]
		eu.latest.Store(int64(50 * time.Second))
		us.failing.Store(int64(40 * time.Second))
		us.spilled.Store(3)
		want := []Region{
			{Name: "ap", Here: true}, {Name: "eu", Latest: began.Add(50 * time.Second)},
			{Name: "us", SilentSince: began.Add(40 * time.Second), Spilled: 3},
		}
		if got := store.Stats(); !slices.Equal(got.Regions, want) || got.Clients != 0 {
			t.Errorf("%+v, want %+v", got, want)
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
