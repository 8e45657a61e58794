package refused

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestHeld: each refusal that is remembered counts once, until it is dropped.
func TestHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New()
		rule := r.Rule()
		want := func(n int) {
			t.Helper()
			if got := r.Held(); got != n {
				t.Errorf("%d are held, want %d", got, n)
			}
		}
		want(0)
		for i := range 200 {
			rule.Note(fmt.Sprint("client ", i), 1, time.Now(), refusalFor(time.Hour))
			rule.Note("client 0", 1, time.Now(), refusalFor(time.Hour))
		}
		want(200)
		time.Sleep(2 * time.Hour)
		check(t, rule, "client 7", 1, false)
		want(199)
	})
}
