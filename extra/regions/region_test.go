package regions

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

// TestStats: the stats have the times of answers and of silence, and the requests that other regions admit.
func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := core.Must(New(Config{Local: "ap", Stores: three()}))
		start := store.epoch
		time.Sleep(time.Minute)
		eu, us := store.regions[1], store.regions[2]
		eu.latest.Store(int64(50 * time.Second))
		us.failing.Store(int64(40 * time.Second))
		us.spilled.Store(3)
		want := []Region{
			{Name: "ap", Local: true}, {Name: "eu", Latest: start.Add(50 * time.Second)},
			{Name: "us", SilentSince: start.Add(40 * time.Second), Spilled: 3},
		}
		if got := store.Stats(); !slices.Equal(got.Regions, want) || got.Clients != 0 {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// TestRegionHealth: a region is silent 2 s after its first failure. The failure of an earlier request does not fail a
// region that has answered since.
func TestRegionHealth(t *testing.T) {
	var r region
	r.recordAnswer(errDown, 1, 9)
	r.recordAnswer(errDown, 5, 6)
	if r.silent(silentAfter+1) || !r.silent(silentAfter+2) || r.isHealthy() {
		t.Errorf("silent 2 s after it has failed: %v, and later: %v", r.silent(silentAfter+1), r.silent(silentAfter+2))
	}
	r.recordAnswer(nil, 2, 20)
	r.recordAnswer(errDown, 19, 30)
	if !r.isHealthy() || r.silent(silentAfter*2) {
		t.Error("it has answered, and fails")
	}
	if r.recordAnswer(errDown, 20, 30); r.isHealthy() {
		t.Error("it has failed since its answer, and does not")
	}
}
