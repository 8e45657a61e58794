package memstore_test

import (
	"fmt"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// TestReturnOfEvicted: what a client without a slot has counted stays, since the sketch
// cannot tell it from what others have.
func TestReturnOfEvicted(t *testing.T) {
	for _, a := range core.Algorithms() {
		store := memstore.New(memstore.WithMaxBytes(memstore.MinMaxBytes))
		l := core.Must(core.New(core.Config{Store: store, Limits: []core.Limit{core.PerHour(10).Using(a)}}))
		r := l.Reserve(t.Context(), core.Request{Key: "k", Cost: 4})
		for i := 0; store.Stats().Evictions < 2000; i++ {
			l.AllowN(t.Context(), fmt.Sprint(i), 5)
			l.AllowN(t.Context(), fmt.Sprint(i), 5)
		}
		n, err := r.Return(t.Context(), 4)
		if err != nil || n != 0 {
			t.Errorf("%v: %d given back, %v", a, n, err)
		}
		if d := l.AllowN(t.Context(), "k", 7); d.Allowed {
			t.Errorf("%v: %+v after an eviction", a, d)
		}
	}
}
