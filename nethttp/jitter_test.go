package nethttp_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/nethttp"
)

// Each 429 draws its own wait, never sooner than the limiter says and never later than by
// max: all numbers come, and no other. The response says the same number everywhere. What
// is no 429 with a wait stays as it is.
func TestWithJitter(t *testing.T) {
	var observed time.Duration
	on := func(s *fakeStore, policy core.Policy) *core.Limiter {
		return core.Must(core.New(core.Config{
			Store: s, Limits: []core.Limit{minute}, OnStoreError: policy,
			Observer: core.ObserverFunc(func(_ context.Context, e core.Event) { observed = e.Decision.RetryAfter }),
		}))
	}
	const wait = 29300 * time.Millisecond
	refused, down := on(refuses(wait), nil), on(&fakeStore{err: errors.New("down")}, core.FailClosed)
	never := on(&fakeStore{decision: core.Decision{Limit: minute, RetryAfter: core.Never}}, nil)
	jitter := nethttp.WithRetryJitter(5700 * time.Millisecond)
	for _, c := range []struct {
		name        string
		limiter     *core.Limiter
		opts        []nethttp.Option
		least, most int // 0: no Retry-After
	}{
		{"429", refused, nil, 30, 35},
		{"the last counts", refused, []nethttp.Option{nethttp.WithRetryJitter(time.Second)}, 30, 31},
		{"never", never, nil, 0, 0},
		{"503", down, []nethttp.Option{nethttp.WithOutageRetryAfter(time.Second)}, 1, 2},
	} {
		opts := append([]nethttp.Option{nethttp.WithHeaders(headers.Classic, headers.IETF), jitter}, c.opts...)
		h := nethttp.Middleware(c.limiter, alice, opts...)(page)
		drawn := map[string]bool{}
		for range 1000 { // one of 6 is missing in 1 of 10^78 runs
			w := get(t, h, "/")
			after := w.Header().Get("Retry-After")
			drawn[after] = true
			said := w.Code == 503 || after == "" || strings.HasSuffix(w.Header().Get("RateLimit"), ";t="+after) &&
				w.Header().Get("X-RateLimit-Reset") == "30" && observed == wait
			if again := fmt.Sprintf("Try again in %s second", after); !said ||
				after != "" && !strings.Contains(w.Body.String(), again) {
				t.Fatalf("%s: %d %v %s, observed %v", c.name, w.Code, w.Header(), w.Body, observed)
			}
		}
		want := map[string]bool{}
		for i := c.least; i <= c.most; i++ {
			want[strings.TrimPrefix(fmt.Sprint(i), "0")] = true
		}
		if fmt.Sprint(drawn) != fmt.Sprint(want) {
			t.Errorf("%s: drawn were %v, want %v", c.name, drawn, want)
		}
	}
}
