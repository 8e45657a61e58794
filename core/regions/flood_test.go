//go:build !race && !short

package regions

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/internal/redistest"
)

// inUse returns the memory that is in use, in bytes.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestFlood: a flood of busy clients takes no more memory than those that have a place: at most 360 bytes each while
// they all wait for a look, and 270 afterwards. The long form has a million, of which 65,536 have a place.
func TestFlood(t *testing.T) {
	places, flood := 1<<14, 1<<18
	if *long {
		places, flood = defaultMaxClients, 1_000_000
	}
	stores := three()
	for name, store := range stores { // that keep nothing
		stores[name] = storetest.Wrap(store, func(context.Context, storetest.Call) (core.Decision, error) {
			return core.Decision{Allowed: true, Limit: core.PerMinute(100).Named("limit"), Remaining: 10}, nil
		})
	}
	store := newStore(t, Config{Here: "ap", Stores: stores, LookEvery: minLookEvery, MaxClients: places})
	counts, err := store.Bind(core.Binding{Limits: []core.Limit{core.PerMinute(100).Named("limit")}})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(from, to int) {
		for i := from; i < to; i++ {
			if _, err := counts.Take(t.Context(), core.Ask{Key: fmt.Sprint("client ", i), Cost: 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	table := store.table
	table.sending = true // no look is sent yet: the memory of looks under way follows the machine's load
	before := inUse()
	ask(0, places)
	waiting := inUse() - before
	ask(places, flood)
	flooded := inUse() - before
	go table.send(store.now)
	redistest.WaitFor(t, "the looks", func() error {
		table.mu.Lock()
		defer table.mu.Unlock()
		for _, c := range table.clients {
			if c.wish != nil {
				return fmt.Errorf("%d looks are to be sent, and others are under way", len(table.queue))
			}
		}
		return nil
	})
	rest := inUse() - before
	t.Logf("%.1f MB with %d clients, %.1f MB after %d, %.1f MB when all are looked at",
		float64(waiting)/1e6, places, float64(flooded)/1e6, flood, float64(rest)/1e6)
	most := int64(places)
	if n := store.Stats().Clients; n != places || max(waiting, flooded) > 360*most || rest > 320*most {
		t.Errorf("%d clients take that", n)
	}
	runtime.KeepAlive(counts)
}
