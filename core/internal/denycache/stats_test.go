package denycache

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestStats: each cached refusal counts once, until it is dropped, and so does each answer.
func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New()
		rule := r.Rule(bound)
		want := func(held int64, hits uint64) {
			t.Helper()
			if h, a := r.Stats(); h != held || a != hits {
				t.Errorf("%d are held and have answered %d requests, want %d and %d", h, a, held, hits)
			}
		}
		want(0, 0)
		for i := range 200 {
			rule.Record(fmt.Sprint("client ", i), 1, time.Now(), refusalFor(time.Hour))
			rule.Record("client 0", 1, time.Now(), refusalFor(time.Hour))
		}
		want(200, 0)
		check(t, rule, "client 7", 1, true)
		check(t, rule, "client 8", 1, true)
		check(t, rule, "client 8", 2, false)
		want(200, 2)
		time.Sleep(2 * time.Hour)
		check(t, rule, "client 7", 1, false)
		want(199, 2)
	})
}
