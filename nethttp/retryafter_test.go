package nethttp_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
)

// TestDraws: each refusal draws its own wait: a 429 none sooner than the limiter says and none later than by the
// jitter, a 503 from the outage's to twice that. All numbers come, and no other. The response and the decision have
// the same number, and the observer gets the wait of the limiter.
func TestDraws(t *testing.T) {
	const wait = 29300 * time.Millisecond
	jitter, outage := nethttp.WithRetryJitter, nethttp.WithOutageRetryAfter
	down := &fakeStore{err: errors.New("down")}
	never := &fakeStore{decision: core.Decision{Limit: minute, RetryAfter: core.Never}}
	for _, c := range []struct {
		name        string
		store       core.Store
		opts        []nethttp.Option
		least, most int // 0: no Retry-After
	}{
		{"429", refuses(wait), []nethttp.Option{jitter(5700 * time.Millisecond)}, 30, 35},
		{"the last counts", refuses(wait), []nethttp.Option{jitter(time.Hour), jitter(time.Second)}, 30, 31},
		{"never", never, []nethttp.Option{jitter(time.Second)}, 0, 0},
		{"503 by default", down, []nethttp.Option{jitter(time.Hour)}, 5, 10},
		{"503 of one wait", down, []nethttp.Option{outage(1200 * time.Millisecond)}, 2, 2},
		{"503", down, []nethttp.Option{outage(2500 * time.Millisecond)}, 3, 5},
		{"the last counts of 503", down, []nethttp.Option{outage(time.Hour), outage(7 * time.Second)}, 7, 14},
	} {
		var seen time.Duration
		note := nethttp.WithRefusal(func(_ http.ResponseWriter, _ *http.Request, d core.Decision) { seen = d.RetryAfter })
		l, events := observed(c.store, core.FailClosed)
		h := nethttp.Middleware(l, alice, append(c.opts, bothFormats, note)...)(page)
		drawn := map[string]bool{}
		for range 1000 { // one of 8 is missing in 1 of 10^57 runs
			*events = nil
			w := get(t, h, "/")
			after := w.Header().Get("Retry-After")
			drawn[after] = true
			if after == "" {
				continue
			}
			seconds := fmt.Sprint(math.Ceil(seen.Seconds()))
			ok := w.Code == 503 || strings.HasSuffix(w.Header().Get("RateLimit"), ";t="+after) &&
				w.Header().Get("X-RateLimit-Reset") == "30" && (*events)[0].Decision.RetryAfter == wait
			if !ok || seconds != after || !strings.Contains(w.Body.String(), "Try again in "+after+" second") ||
				!strings.Contains(w.Body.String(), `"retry_after":`+after) {
				t.Fatalf("%s: got %d %v %s, %v, %v", c.name, w.Code, w.Header(), w.Body, seen, *events)
			}
		}
		want := map[string]bool{}
		for i := c.least; i <= c.most; i++ {
			want[strings.TrimPrefix(fmt.Sprint(i), "0")] = true
		}
		if !maps.Equal(drawn, want) {
			t.Errorf("%s: got %v, want %v", c.name, drawn, want)
		}
	}
}
