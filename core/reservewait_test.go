package core_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// TestReturnWakes: a unit that is given back wakes a caller that waits for one.
func TestReturnWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(1)}}))
		r := l.Reserve(ctx, core.Request{Key: "k", Cost: 1})
		begun := time.Now()
		time.AfterFunc(time.Minute, func() {
			if n, err := r.Return(ctx, 1); n != 1 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		})
		if _, err := l.Wait(ctx, "k"); err != nil || time.Since(begun) != time.Minute {
			t.Errorf("%v after %v, want a minute", err, time.Since(begun))
		}
	})
}
