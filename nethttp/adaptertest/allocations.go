package adaptertest

import (
	"math"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sashlimit/sash/core"
)

// sink is a ResponseWriter that discards all but the header.
type sink struct{ header http.Header }

func (s sink) Header() http.Header         { return s.header }
func (s sink) Write(b []byte) (int, error) { return len(b), nil }
func (s sink) WriteHeader(int)             {}

// allocations checks that an adapter makes at most two allocations more than an empty middleware of its framework, for
// the header fields.
func allocations(t *testing.T, adapter Adapter) {
	l := newLimiter(core.PerHour(100_000))
	least := func(s Step) float64 {
		nothing := func(http.ResponseWriter, *http.Request) {}
		h := adapter.Build(Tree{Routes: []Route{route("GET", "/", []Step{s}, nothing)}})
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		w := sink{http.Header{}}
		least := math.Inf(1)
		for range 100 { // the least of many, since the frameworks' pools may lose their contents
			least = min(least, testing.AllocsPerRun(1, func() {
				clear(w.header)
				h.ServeHTTP(w, r)
			}))
		}
		return least
	}
	with, without := least(Step{Limiter: l, Key: sameKey}), least(Step{Spy: func() {}})
	if with-without > 2 {
		t.Errorf("%v allocations with the limit, %v with a middleware that does nothing", with, without)
	}
}
