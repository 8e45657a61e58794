package nethttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/internal/fakeclock"
	"github.com/sashlimit/sash/nethttp"
)

// left returns the units that are left to alice.
func left(l *core.Limiter) int64 { return l.AllowN(context.Background(), "user:alice", 0).Remaining }

// TestSettledByHandler: a handler settles its request, whether its client is there or not, and CountWhen is not called
// then. While the store fails, there is nothing to settle.
func TestSettledByHandler(t *testing.T) {
	five := nethttp.WithCost(func(*http.Request) int { return 5 })
	settle := func(cost int64) func(*nethttp.Admission, context.Context) error {
		return func(a *nethttp.Admission, ctx context.Context) error { return a.Settle(ctx, cost) }
	}
	for name, c := range map[string]struct {
		store  core.Store
		settle func(*nethttp.Admission, context.Context) error
		err    error
		before int64 // what the handler finds left of 10
		left   int64 // after the request
		calls  int   // of CountWhen
	}{
		"less":     {memstore.New(), settle(3), nil, 5, 7, 0},
		"Return":   {memstore.New(), (*nethttp.Admission).Return, nil, 5, 10, 0},
		"in vain":  {memstore.New(), settle(-1), core.ErrInvalid, 5, 10, 1},
		"no store": {&fakeStore{err: errors.New("down")}, settle(3), nil, 0, 0, 0},
	} {
		calls := 0
		never := nethttp.CountWhen(func(*http.Request, int) bool { calls++; return false })
		l := core.Must(core.New(core.Config{Store: c.store, Limits: []core.Limit{core.PerMinute(10)}}))
		get(t, nethttp.Middleware(l, alice, five, never, nethttp.WithDecisionInContext())(
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				a, ok := nethttp.FromContext(r.Context())
				if !ok || a.Decision().Remaining != c.before {
					t.Fatalf("%s: got %v, %+v, want %d remaining", name, ok, a, c.before)
				}
				gone, leave := context.WithCancel(r.Context())
				leave()
				if err := c.settle(a, gone); !errors.Is(err, c.err) {
					t.Errorf("%s: got %v, want %v", name, err, c.err)
				}
			})), "/")
		if left(l) != c.left || calls != c.calls {
			t.Errorf("%s: got %d left, %d calls of CountWhen, want %d and %d", name, left(l), calls, c.left, c.calls)
		}
	}
}

// TestCountWhenPanics: a panic of CountWhen is the server's, and the request stays counted.
func TestCountWhenPanics(t *testing.T) {
	l := fakeclock.Limiter(core.PerMinute(5))
	panics := nethttp.CountWhen(func(*http.Request, int) bool { panic("the user's own") })
	defer func() {
		if p := recover(); p != "the user's own" || left(l) != 4 {
			t.Errorf("got the panic %v and %d left, want the user's own and 4", p, left(l))
		}
	}()
	get(t, nethttp.Middleware(l, alice, panics)(page), "/")
}

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
			l := fakeclock.Limiter(core.Per(1, 15*time.Minute))
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
