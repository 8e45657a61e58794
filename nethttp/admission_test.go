package nethttp_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/nethttp"
)

// left returns the units that are left to alice.
func left(l *core.Limiter) int64 { return l.AllowN(context.Background(), "user:alice", 0).Remaining }

// TestSettledByHandler: a handler settles its request once, whether its client is there or not, and
// CountWhen changes nothing then.
func TestSettledByHandler(t *testing.T) {
	never := nethttp.CountWhen(func(*http.Request, int) bool { return false })
	five := nethttp.WithCost(func(*http.Request) int { return 5 })
	for name, c := range map[string]struct {
		settle func(context.Context, *nethttp.Admission) error
		left   int64 // of 10
	}{
		"less":    {func(ctx context.Context, a *nethttp.Admission) error { return a.Settle(ctx, 3) }, 7},
		"more":    {func(ctx context.Context, a *nethttp.Admission) error { return a.Settle(ctx, 7) }, 3},
		"huge":    {func(ctx context.Context, a *nethttp.Admission) error { return a.Settle(ctx, math.MaxInt64) }, 0},
		"in vain": {nil, 10}, // CountWhen is asked as ever
		"Return":  {func(ctx context.Context, a *nethttp.Admission) error { return a.Return(ctx) }, 10},
	} {
		l := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerMinute(10)}}))
		get(t, nethttp.Middleware(l, alice, five, never, nethttp.WithDecisionInContext())(
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				a, ok := nethttp.FromContext(r.Context())
				if !ok || a.Decision().Remaining != 5 {
					t.Fatalf("%s: got %v, %+v, want 5 remaining", name, ok, a)
				}
				gone, leave := context.WithCancel(r.Context())
				leave()
				if err := a.Settle(gone, -1); !errors.Is(err, core.ErrInvalid) {
					t.Errorf("%s: settled at -1: got %v, want ErrInvalid", name, err)
				}
				if c.settle == nil {
					return
				}
				if err := c.settle(gone, a); err != nil || left(l) != c.left {
					t.Errorf("%s: got %v and %d left, want nil and %d", name, err, left(l), c.left)
				}
				if err := a.Return(gone); !errors.Is(err, core.ErrInvalid) || left(l) != c.left {
					t.Errorf("%s: a second time: got %v and %d left, want ErrInvalid and %d", name, err, left(l), c.left)
				}
			})), "/")
		if left(l) != c.left {
			t.Errorf("%s: got %d left after the request, want %d", name, left(l), c.left)
		}
	}
}

// TestNothingToSettle: while the store cannot be asked, there is nothing to settle.
func TestNothingToSettle(t *testing.T) {
	l := limiter(&fakeStore{err: errors.New("down")}, core.FailOpen)
	w := get(t, nethttp.Middleware(l, alice, nethttp.WithDecisionInContext())(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			a, ok := nethttp.FromContext(r.Context())
			if !ok || a.Settle(r.Context(), 7) != nil {
				t.Errorf("got an Admission: %v, %+v, want one that settles", ok, a)
			}
		})), "/")
	if w.Code != 200 || w.Header().Get("X-RateLimit-Limit") != "" {
		t.Errorf("got %d %v, want 200 without fields", w.Code, w.Header())
	}
}

// TestCountWhenPanics: a panic of CountWhen is the server's, and the request stays counted.
func TestCountWhenPanics(t *testing.T) {
	l := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerMinute(5)}}))
	h := nethttp.Middleware(l, alice, nethttp.CountWhen(func(*http.Request, int) bool { panic("the user's own") }))(page)
	defer func() {
		if p := recover(); p != "the user's own" || left(l) != 4 {
			t.Errorf("got the panic %v and %d left, want the user's own and 4", p, left(l))
		}
	}()
	get(t, h, "/")
}
