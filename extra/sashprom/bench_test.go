package sashprom_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/extra/sashprom"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// sink is a response that goes nowhere.
type sink struct{ header http.Header }

func (s sink) Header() http.Header         { return s.header }
func (s sink) Write(b []byte) (int, error) { return len(b), nil }
func (s sink) WriteHeader(int)             {}

// guarded returns a function that sends a request through the middleware with a store
// in memory. Every request is admitted, or else all but the first are refused.
func guarded(tb testing.TB, observer core.Observer, admit bool) func() {
	tb.Helper()
	limit := core.Per(core.MaxLogRequests, core.MinWindow)
	if !admit {
		limit = core.PerHour(1)
	}
	limiter, err := core.New(core.Config{
		Name: "api", Store: memstore.New(), Limits: []core.Limit{limit}, Observer: observer,
	})
	if err != nil {
		tb.Fatal(err)
	}
	h := nethttp.Middleware(limiter, keyfuncs.RemoteIP)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r, err := http.NewRequest(http.MethodGet, "/", nil)
	if err != nil {
		tb.Fatal(err)
	}
	r.RemoteAddr = "192.0.2.1:4711"
	w := sink{http.Header{}}
	return func() {
		clear(w.header)
		h.ServeHTTP(w, r)
	}
}

// TestNoAllocation: a request with the metrics allocates as often as one without.
func TestNoAllocation(t *testing.T) {
	for _, test := range []struct {
		name  string
		admit bool
	}{{"admitted", true}, {"refused", false}} {
		t.Run(test.name, func(t *testing.T) {
			plain := testing.AllocsPerRun(1000, guarded(t, core.Silent, test.admit))
			for name, m := range map[string]*sashprom.Metrics{
				"by rule": sashprom.New(), "by route": sashprom.New(sashprom.ByRoute()),
			} {
				if got := testing.AllocsPerRun(1000, guarded(t, m.For("memory"), test.admit)); got != plain {
					t.Errorf("%s: %v allocations a request, want %v as without metrics", name, got, plain)
				}
			}
		})
	}
}

// BenchmarkObserve is the observer alone, in one goroutine and in as many as there are
// processors.
func BenchmarkObserve(b *testing.B) {
	e := core.Event{Name: "api", Rule: "login", Label: "POST /login", Key: "ip:192.0.2.1", Cost: 1,
		Decision: core.Decision{Allowed: true, Source: core.SourceCounted}, Elapsed: 200 * time.Nanosecond}
	m := sashprom.New().For("memory")
	b.Run("alone", func(b *testing.B) {
		for b.Loop() {
			m.Observe(b.Context(), e)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				m.Observe(context.Background(), e)
			}
		})
	})
}
