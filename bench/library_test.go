package bench

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/internal/redistest"
)

func TestMain(m *testing.M) {
	RunWorker()
	os.Exit(m.Run())
}

// fieldsByName holds the header fields that each library writes by default.
var fieldsByName = map[string][]string{
	"sash counter": {"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
	"sash log":     {"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
	"httprate":     {"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
	"ulule":        {"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
	"throttled":    {"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
	"go-limiter":   {"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
	"tollbooth":    {"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset"},

	"echo v5 RateLimiter": {"X-Ratelimit-Limit", "X-Ratelimit-Remaining"},
}

// TestLibraries: each library limits by client and writes its headers.
func TestLibraries(t *testing.T) {
	for _, l := range slices.Concat(libraries(), echoLibraries(), echo5Libraries()) {
		var through served
		h, err := l.wrap(load{requests: 3}, &through)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ client, status int }{{1, 200}, {1, 200}, {1, 200}, {1, 429}, {2, 200}, {1, 429}} {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = address(c.client)
			w := httptest.NewRecorder()
			before := through
			h.ServeHTTP(w, r)
			if reached := through > before; w.Code != c.status || reached != (c.status == 200) {
				t.Errorf("%s: client %d got %d, want %d; reached the handler: %v",
					l.name, c.client, w.Code, c.status, reached)
			}
			for _, field := range fieldsByName[l.name] {
				if w.Header().Get(field) == "" {
					t.Errorf("%s: no %s in %v", l.name, field, w.Header())
				}
			}
		}
		if fieldsByName[l.name] == nil && l.name != "echo RateLimiter" {
			t.Errorf("%s: what does it write?", l.name)
		}
	}
}

func TestDeciders(t *testing.T) {
	for _, d := range oneKeyDeciders() {
		allow, err := d.make(load{requests: 3})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []bool{true, true, true, false, false} {
			if got, err := allow("a"); got != want || err != nil {
				t.Errorf("%s: request %d: %v, %v", d.name, i, got, err)
			}
		}
	}
}

// TestKeyedDeciders holds each library to a limit of 3, for each key by itself.
func TestKeyedDeciders(t *testing.T) {
	for _, d := range keyedDeciders() {
		allow, err := d.make(load{requests: 3})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			for _, key := range []string{"a", "b"} {
				if ok, err := allow(key); err != nil || ok != (i < 3) {
					t.Errorf("%s: request %d of %s: %v, %v", d.name, i, key, ok, err)
				}
			}
		}
	}
}

func TestRemotes(t *testing.T) {
	server := redistest.Start(t)
	cluster := redistest.StartCluster(t, 3, 0)
	limited := 0
	for _, env := range []Env{{Redis: server.Addr()}, {Redis: server.Addr(), Cluster: cluster.Addrs()}} {
		for _, remote := range remotes(3) {
			if remote.name == plainCounter || remote.name == plainLog || remote.name == returnOne {
				continue // a script without a library decides nothing
			}
			if env.Cluster != nil && (remote.name == aloneCounter || remote.name == aloneLog) {
				continue // these contestants use the single server
			}
			var rdb redis.UniversalClient = server.Client(t)
			if env.Cluster != nil {
				rdb = cluster.Client(t)
			}
			decide, err := remote.open(rdb, env)
			if err != nil {
				t.Fatal(err)
			}
			limited++
			for i, want := range []error{nil, nil, nil, errRefused, errRefused} {
				if got := decide(7); !errors.Is(got, want) {
					t.Errorf("%s: request %d: %v, want %v", remote.name, i, got, want)
				}
			}
			if err := decide(8); err != nil {
				t.Errorf("%s: another client: %v", remote.name, err)
			}
		}
	}
	if limited != 12 {
		t.Errorf("%d contestants", limited)
	}
}

// TestScenesAreChecked: a batch of requests of which one is admitted or refused
// against the scene's rule gives an error, not a time.
func TestScenesAreChecked(t *testing.T) {
	for _, s := range []scene{
		{keys: 1, refused: false, load: load{requests: 5}},
		{keys: 1, refused: true, load: load{requests: 5}},
	} {
		work, err := s.open(libraries()[0])(Env{})
		if err != nil {
			t.Fatal(err)
		}
		// open sent two requests, so a limit of 5 admits three of these.
		if err := work(10); err == nil {
			t.Errorf("refused %v: no error, want one", s.refused)
		}
	}
}

func ExampleRow_Met() {
	r := Row{Name: "a", Values: []float64{10}, Ratios: []float64{1, 3, 2}, Allocs: new(2.0)}
	r.Goal = Goal{Ratio: new(2.5), Allocs: new(2.0)}
	fmt.Println(r.Met())
	r.LowerIsBetter = true
	fmt.Println(r.Met())
	// Output:
	// [>= 2.50 MISSED allocs <= 2 met] false
	// [<= 2.50 met allocs <= 2 met] true
}
