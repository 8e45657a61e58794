package bench

import (
	"net/http"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// TestTwoLimits: a client has two limits of an hour, of 5 and of 2, and sends 5 requests. Of
// limiters in a row, the first has counted all 5, of which 3 were refused by the second; and
// now it refuses the client by itself. Two limits of one limiter of sash count 2 each.
func TestTwoLimits(t *testing.T) {
	for _, l := range peerLibraries() {
		var through served
		inner, err := l.wrap(load{requests: 2}, &through)
		if err != nil {
			t.Fatal(err)
		}
		alone := false
		outer, err := l.wrap(load{requests: 5}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if alone {
				through.ServeHTTP(w, r)
				return
			}
			inner.ServeHTTP(w, r)
		}))
		if err != nil {
			t.Fatal(err)
		}
		visit := visits(outer, 1)
		for range 5 {
			visit()
		}
		if through != 2 {
			t.Errorf("%s: %d requests reach the handler, want 2", l.name, through)
		}
		alone = true
		if visit() {
			t.Errorf("%s: the outer limit has not counted what the inner one refused", l.name)
		}
	}

	limiter, err := core.New(core.Config{
		Name: "bench", Store: memstore.New(), Limits: []core.Limit{core.PerHour(5), core.PerDay(2)},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		limiter.Allow(t.Context(), "a")
	}
	use, err := limiter.Usage(t.Context(), "a")
	if err != nil || len(use) != 2 || use[0].Used != 2 || use[1].Used != 2 {
		t.Errorf("two limits of sash: %+v, %v, want 2 counted by each", use, err)
	}
}
