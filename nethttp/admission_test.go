package nethttp_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
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
			t.Errorf("%s: got %d left, CountWhen called %d times, want %d and %d", name, left(l), calls, c.left, c.calls)
		}
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
