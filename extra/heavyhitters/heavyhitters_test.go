package heavyhitters_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/extra/heavyhitters"
)

// request returns the event of a request that the rule "login" of the limiter "api" decided.
func request(key string, allowed bool) core.Event {
	return core.Event{Name: "api", Rule: "login", Key: key, Cost: 1,
		Decision: core.Decision{Allowed: allowed, Source: core.SourceCounted}}
}

// TestTop compares the heaviest clients with exact counts, among 100,000 clients whose shares follow Zipf's law. The
// first half are far above the rest, and must be listed.
func TestTop(t *testing.T) {
	const k, requests, clients = 20, 100_000, 100_000
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, clients)
	heavy := core.Must(heavyhitters.New(k))
	counts := map[string]uint64{}
	for range requests {
		key := fmt.Sprint("user:", zipf.Uint64())
		counts[key]++
		heavy.Observe(t.Context(), request(key, false))
	}
	top := heavy.Top("api", "login", core.OutcomeRefused)
	if top.Requests != requests || len(top.Clients) != k {
		t.Fatalf("%d requests and %d clients, want %d and %d", top.Requests, len(top.Clients), requests, k)
	}
	for i, c := range top.Clients {
		if i < k/2 && c.Key != fmt.Sprint("user:", i) && c.Requests < counts[fmt.Sprint("user:", i)] {
			t.Errorf("%d: %+v, want user:%[1]d, which sent more", i, c)
		}
		if n := counts[c.Key]; n < c.AtLeast || n > c.Requests {
			t.Errorf("%s sent %d, want from %d to %d", c.Key, n, c.AtLeast, c.Requests)
		}
		delete(counts, c.Key)
	}
	for key, n := range counts {
		if n > top.Unlisted {
			t.Errorf("%s is not listed and sent %d, want at most %d", key, n, top.Unlisted)
		}
	}
}

// TestFewAreExact: while there is a place for each client, the counts are exact.
func TestFewAreExact(t *testing.T) {
	heavy := core.Must(heavyhitters.New(3))
	for i, key := range []string{"a", "b", "c"} {
		for range i + 1 {
			heavy.Observe(t.Context(), request(key, true))
		}
	}
	top := heavy.Top("api", "login", core.OutcomeAdmitted)
	want := []heavyhitters.Client{
		{Key: "c", AtLeast: 3, Requests: 3}, {Key: "b", AtLeast: 2, Requests: 2}, {Key: "a", AtLeast: 1, Requests: 1},
	}
	if !slices.Equal(top.Clients, want) || top.Unlisted != 0 || top.Requests != 6 {
		t.Errorf("%+v, want %+v of 6 requests and nothing unlisted", top, want)
	}
	for _, top := range []heavyhitters.Ranking{
		heavy.Top("api", "login", core.OutcomeRefused), heavy.Top("api", "", core.OutcomeAdmitted),
		heavy.Top("api", "login", 7),
	} {
		if len(top.Clients) != 0 || top.Requests != 0 || top.Since.IsZero() {
			t.Errorf("%+v, want an empty ranking", top)
		}
	}
}

// TestCounted: what a limit decided is counted, and nothing else.
func TestCounted(t *testing.T) {
	heavy := core.Must(heavyhitters.New(1))
	limiter := core.Must(core.New(core.Config{
		Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerHour(2)}, Observer: heavy,
	}))
	for range 5 {
		limiter.Allow(t.Context(), "user:1")
		limiter.Peek(t.Context(), "user:2")
	}
	limiter.Allow(t.Context(), "")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	limiter.Allow(ended, "user:3")
	for _, source := range []core.Source{core.SourcePolicy, core.SourceSkipped} {
		e := request("user:4", true)
		e.Decision.Source, e.Decision.Err = source, errors.New("no store")
		heavy.Observe(t.Context(), e)
	}
	all := heavy.Rankings()
	if len(all) != 2 || all[0].Requests != 3 || all[1].Requests != 2 {
		t.Fatalf("%+v, want 3 refused requests and 2 admitted", all)
	}
	for _, r := range all {
		if r.Limiter != "api" || r.Rule != "" || r.Clients[0].Key != "user:1" || len(r.Clients) != 1 {
			t.Errorf("%+v, want user:1 alone", r)
		}
	}
}

// TestKeys: long keys are cut and yet counted apart.
func TestKeys(t *testing.T) {
	long := strings.Repeat("k", 96)
	heavy := core.Must(heavyhitters.New(5))
	for _, key := range []string{long, long, long, long + "a", long + "b", long + "b"} {
		heavy.Observe(t.Context(), request(key, false))
	}
	want := []heavyhitters.Client{
		{Key: long, AtLeast: 3, Requests: 3},
		{Key: long, Cut: true, AtLeast: 2, Requests: 2},
		{Key: long, Cut: true, AtLeast: 1, Requests: 1},
	}
	if got := heavy.Top("api", "login", core.OutcomeRefused).Clients; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestManyRules: rules beyond a hundred are counted together, and memory is bounded.
func TestManyRules(t *testing.T) {
	heavy := core.Must(heavyhitters.New(1))
	for i := range 1000 {
		e := request("user:1", false)
		e.Rule = fmt.Sprint("tenant", i)
		heavy.Observe(t.Context(), e)
	}
	all := heavy.Rankings()
	other := heavy.Top("other", "other", core.OutcomeRefused)
	if len(all) != 101 || other.Requests != 900 {
		t.Errorf("%d rankings and %d requests of others, want 101 and 900", len(all), other.Requests)
	}
}

// TestReset: counting begins anew.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heavy := core.Must(heavyhitters.New(1))
		began := time.Now()
		for i := range 1000 {
			heavy.Observe(t.Context(), request(fmt.Sprint(i), false))
		}
		if top := heavy.Top("api", "login", core.OutcomeRefused); !top.Since.Equal(began) || top.Requests != 1000 {
			t.Errorf("%d requests since %v, want 1000 since %v", top.Requests, top.Since, began)
		}
		time.Sleep(time.Hour)
		heavy.Reset()
		if all := heavy.Rankings(); len(all) > 0 {
			t.Errorf("after Reset: %+v, want nothing", all)
		}
		heavy.Observe(t.Context(), request("new", false))
		want := heavyhitters.Ranking{
			Limiter: "api", Rule: "login", Outcome: core.OutcomeRefused, Since: began.Add(time.Hour), Requests: 1,
			Clients: []heavyhitters.Client{{Key: "new", AtLeast: 1, Requests: 1}},
		}
		if got := heavy.Top("api", "login", core.OutcomeRefused); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// TestConcurrent: goroutines count, read and reset at once, and nothing is lost
// after the last Reset.
func TestConcurrent(t *testing.T) {
	const goroutines, each = 8, 2000
	heavy := core.Must(heavyhitters.New(4))
	run := func(also func()) {
		var group sync.WaitGroup
		for g := range goroutines {
			group.Go(func() {
				rng := rand.New(rand.NewPCG(1, uint64(g)))
				for i := range each {
					e := request(fmt.Sprint(rng.IntN(200)), i%2 == 0)
					e.Rule = fmt.Sprint(i % 3)
					heavy.Observe(context.Background(), e)
				}
			})
		}
		also()
		group.Wait()
	}
	run(func() {
		for range 20 {
			heavy.Rankings()
			heavy.Reset()
		}
	})
	heavy.Reset()
	run(func() { heavy.Rankings() })
	var total uint64
	for _, r := range heavy.Rankings() {
		total += r.Requests
	}
	if total != goroutines*each {
		t.Errorf("%d requests, want %d", total, goroutines*each)
	}
}

// TestNoAllocation: neither a known client nor a new one allocates.
func TestNoAllocation(t *testing.T) {
	heavy := core.Must(heavyhitters.New(2))
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = fmt.Sprint("user:", i)
	}
	heavy.Observe(t.Context(), request("first", false))
	i := 0
	if n := testing.AllocsPerRun(len(keys)-1, func() {
		heavy.Observe(context.Background(), request("known", false))
		heavy.Observe(context.Background(), request(keys[i], false))
		i++
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// TestMisuse: what the program gives wrong is said when it starts.
func TestMisuse(t *testing.T) {
	for _, k := range []int{0, 1001} {
		want := fmt.Sprintf("sash: heavyhitters.New(%d): give from 1 to 1000 clients", k)
		if _, err := heavyhitters.New(k); err == nil || err.Error() != want {
			t.Errorf("got the error %v, want %s", err, want)
		}
	}
}
