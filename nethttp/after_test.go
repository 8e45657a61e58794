package nethttp_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
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
	const refused = "429, Retry-After 900"
	for _, c := range []struct {
		name     string
		n        int
		status   int
		took     time.Duration // of each handler
		want     map[string]int
		all      time.Duration
		shadowed bool
	}{
		{"right", 50, 200, 30 * time.Millisecond, map[string]int{"200": 50}, 300 * time.Millisecond, false},
		{"wrong", 1000, 401, 30 * time.Millisecond, map[string]int{"401": 5, refused: 995}, 30 * time.Millisecond, false},
		{"in a panic", 50, 0, 30 * time.Millisecond, map[string]int{"panic": 50}, 300 * time.Millisecond, false},
		{"in the shadow", 50, 401, 30 * time.Millisecond, map[string]int{"401": 50}, 30 * time.Millisecond, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.Per(5, 15*time.Minute)}}))
			failed := nethttp.CountWhen(func(_ *http.Request, status int) bool { return status == 401 })
			h := nethttp.Middleware(l, alice, failed, nethttp.ShadowWhile(func() bool { return c.shadowed }))(
				http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					time.Sleep(c.took)
					if c.status == 0 {
						panic(http.ErrAbortHandler)
					}
					w.WriteHeader(c.status)
				}))
			start := time.Now()
			got := attempts(c.n, h)
			if took := time.Since(start); !maps.Equal(got, c.want) || took != c.all {
				t.Errorf("%s: got %v after %v, want %v after %v", c.name, got, took, c.want, c.all)
			}
		})
	}
}

// attempts makes requests in parallel, and returns how many have had each outcome.
func attempts(n int, h http.Handler) map[string]int {
	var mu sync.Mutex
	var group sync.WaitGroup
	outcomes := map[string]int{}
	for range n {
		group.Go(func() {
			outcome := "panic"
			defer func() {
				_ = recover()
				mu.Lock()
				defer mu.Unlock()
				outcomes[outcome]++
			}()
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("POST", "/login", nil))
			outcome = strconv.Itoa(w.Code)
			if after := w.Header().Get("Retry-After"); after != "" {
				outcome += ", Retry-After " + after
			}
		})
	}
	group.Wait()
	return outcomes
}
