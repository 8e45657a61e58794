package nethttp_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/nethttp"
)

// TestAttemptsAtOnce: where units under way fill the limit of CountWhen, a request waits for one that comes back. So
// right passwords at once are not refused, and wrong ones pass as often as the limit says.
func TestAttemptsAtOnce(t *testing.T) {
	const duration = 30 * time.Millisecond // each handler
	for _, c := range []struct {
		name     string
		status   int
		want     []string // status and Retry-After of two requests under a limit of one
		all      time.Duration
		shadowed bool
	}{
		{"right", 200, []string{"200 []", "200 []"}, 2 * duration, false},
		{"wrong", 401, []string{"401 []", "429 [900]"}, duration, false},
		{"in a panic", 0, []string{"panic", "panic"}, 2 * duration, false},
		{"in the shadow", 401, []string{"401 []", "401 []"}, duration, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.Per(1, 15*time.Minute)}}))
			failed := nethttp.CountWhen(func(_ *http.Request, status int) bool { return status == 401 })
			h := nethttp.Middleware(l, alice, failed, nethttp.ShadowWhile(func() bool { return c.shadowed }))(
				http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					time.Sleep(duration)
					if c.status == 0 {
						panic(http.ErrAbortHandler)
					}
					w.WriteHeader(c.status)
				}))
			start, outcomes := time.Now(), make(chan string)
			for range 2 {
				go func() {
					outcome := "panic"
					defer func() { _ = recover(); outcomes <- outcome }()
					w := get(t, h, "/login")
					outcome = fmt.Sprint(w.Code, w.Header()["Retry-After"])
				}()
			}
			got := slices.Sorted(slices.Values([]string{<-outcomes, <-outcomes}))
			if all := time.Since(start); !slices.Equal(got, c.want) || all != c.all {
				t.Errorf("%s: got %q after %v, want %q after %v", c.name, got, all, c.want, c.all)
			}
		})
	}
}
