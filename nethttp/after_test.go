package nethttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/nethttp"
)

// hanging is a store whose Return waits until its context ends.
type hanging struct{ core.Store }

func (s hanging) Bind(rule core.Rule) (core.Counts, error) {
	c, err := s.Store.Bind(rule)
	return hangingCounts{c}, err
}

type hangingCounts struct{ core.Counts }

func (hangingCounts) Return(ctx context.Context, _ core.Back) (int64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// A Return goes out although the client has left, and holds up the response for
// Config.Timeout at most.
func TestReturnIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New(core.Config{
			Store: hanging{memstore.New()}, Limits: []core.Limit{core.PerHour(5)}, Timeout: 70 * time.Millisecond,
		}))
		ctx, leave := context.WithCancel(t.Context())
		never := nethttp.CountWhen(func(*http.Request, int) bool { return false })
		h := nethttp.Middleware(l, alice, never)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			leave()
			w.WriteHeader(401)
		}))
		start := time.Now()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ctx))
		if took := time.Since(start); took != 70*time.Millisecond {
			t.Errorf("the response took %v, want 70ms", took)
		}
		if d := l.AllowN(t.Context(), "user:alice", 0); d.Remaining != 4 {
			t.Errorf("%d units are left, want 4", d.Remaining)
		}
	})
}
