package adaptertest

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
)

// watch is a limiter of 5 a minute. Its CountWhen notes the statuses that it is asked
// about.
type watch struct {
	limiter *core.Limiter
	counted bool // what CountWhen returns

	mu       sync.Mutex // guards statuses
	statuses []int
}

func newWatch() *watch { return &watch{limiter: newLimiter(core.PerMinute(5))} }

// step returns the guard of the limiter, with the address of the peer as its key.
func (w *watch) step(opts ...nethttp.Option) Step {
	counted := nethttp.CountWhen(func(_ *http.Request, status int) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.statuses = append(w.statuses, status)
		return w.counted
	})
	return step(w.limiter, append(opts, counted)...)
}

// expect checks the statuses that CountWhen was asked about since the last call, and how
// many units are left.
func (w *watch) expect(t *testing.T, what string, left int64, statuses ...int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.limiter.AllowN(context.Background(), "user:all", 0)
	if d.Remaining != left || !slices.Equal(w.statuses, statuses) {
		t.Errorf("%s: %d units are left, CountWhen was asked about %v; want %d and %v",
			what, d.Remaining, w.statuses, left, statuses)
	}
	w.statuses = nil
}

// exchange sends POST / to h over TCP, waits until h has returned, and returns the status
// that the client gets: 0 if the connection ends without one.
func exchange(t *testing.T, h http.Handler) int {
	t.Helper()
	returned := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(returned)
		h.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	defer s.Close()
	res, err := clientOf(s).Post(s.URL, "text/plain", nil)
	<-returned
	if err != nil {
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}

// status returns a handler that sends a status.
func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}
