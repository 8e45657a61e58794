package adaptertest

import (
	"context"
	"slices"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/fakeclock"
	"github.com/sashlimit/sash/nethttp"
)

// labels checks the labels that an observer gets, also of refused requests. They are
// empty where no route matches.
func labels(t *testing.T, adapter Adapter) {
	var seen []string
	var statuses []int
	l := core.Must(core.New(core.Config{
		Store:  fakeclock.Store(),
		Limits: []core.Limit{core.PerMinute(4)},
		Observer: core.ObserverFunc(func(_ context.Context, e core.Event) {
			seen, statuses = append(seen, e.Label), append(statuses, nethttp.Status(e.Decision))
		}),
	}))
	item := func(steps []Step) []Route { return []Route{route("GET", "/items/{id}", steps, page)} }
	use, group, ofRoute := []Step{step(l)}, []Step{step(l, counted)}, []Step{step(l)}
	h := adapter.Build(Tree{Use: use, Prefix: "/api", Group: group, Routes: item(ofRoute)})
	expectEvents := func(wantLabels []string, wantStatuses []int) {
		t.Helper()
		if !slices.Equal(seen, wantLabels) || !slices.Equal(statuses, wantStatuses) {
			t.Errorf("got labels %q and statuses %v, want %q and %v", seen, statuses, wantLabels, wantStatuses)
		}
		seen, statuses = nil, nil
	}
	serve(h, "GET", "/api/items/17")
	expectEvents([]string{adapter.RootLabel, adapter.GroupLabel, adapter.RouteLabel}, []int{200, 200, 200})
	serve(h, "GET", "/nowhere/17")
	expectEvents([]string{""}, []int{200})
	serve(h, "GET", "/api/items/17")
	expectEvents([]string{adapter.RootLabel}, []int{429})
}
