package adaptertest

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
)

// countRecorder is a limiter of 5 per minute whose CountWhen records the statuses of responses.
type countRecorder struct {
	limiter *core.Limiter
	counted bool // what CountWhen returns

	statuses []int
}

func newCountRecorder() *countRecorder { return &countRecorder{limiter: newLimiter(core.PerMinute(5))} }

// step returns the guard of the limiter, with the address of the peer as its key.
func (w *countRecorder) step(opts ...nethttp.Option) Step {
	counted := nethttp.CountWhen(func(_ *http.Request, status int) bool {
		w.statuses = append(w.statuses, status)
		return w.counted
	})
	return step(w.limiter, append(opts, counted)...)
}

// expect checks the statuses that CountWhen got since the last call, and the number of units that are left.
func (w *countRecorder) expect(t *testing.T, what string, left int64, statuses ...int) {
	t.Helper()
	if got := remaining(w.limiter); got != left || !slices.Equal(w.statuses, statuses) {
		t.Errorf("%s: %d units are left, CountWhen got %v; want %d and %v",
			what, got, w.statuses, left, statuses)
	}
	w.statuses = nil
}

// exchange sends POST / to h over TCP, waits until h has returned, and returns the status and the body that the client
// gets: 0 if the connection ends without one. logged gets what the server logs.
func exchange(t *testing.T, h http.Handler, logged io.Writer) (status int, body string) {
	t.Helper()
	returned := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(returned)
		h.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = log.New(logged, "", 0)
	s.Start()
	defer s.Close()
	client := s.Client()
	client.Timeout = 20 * time.Second // no test waits for ever
	res, err := client.Post(s.URL, "text/plain", nil)
	<-returned
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

// status returns a handler that sends a status.
func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}
