// Package still makes limiters for tests in which no time passes, and sends requests to what they limit.
package still

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// noon is the time of the clock that stands still.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Store returns a new store in memory. Its clock stands still.
func Store() core.Store { return memstore.New(memstore.WithClock(func() time.Time { return noon })) }

// Limiter returns a limiter with a Store of its own.
func Limiter(limits ...core.Limit) *core.Limiter {
	return core.Must(core.New(core.Config{Name: "test", Store: Store(), Limits: limits}))
}

// Get sends a GET request to h and returns the response.
func Get(h http.Handler, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w
}

// OneByIP asks a handler under LimitByIP of one a minute and nine an hour: each address has the limits, and a request
// without an address is refused.
func OneByIP(t *testing.T, h http.Handler) {
	t.Helper()
	for _, c := range []struct {
		addr   string
		status int
	}{{"192.0.2.1:1", 200}, {"192.0.2.1:2", 429}, {"192.0.2.2:1", 200}, {"@", 400}, {"", 400}} {
		r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		r.RemoteAddr = c.addr
		h.ServeHTTP(w, r)
		if w.Code != c.status || (w.Header().Get("X-RateLimit-Limit") == "1") != (c.status != 400) {
			t.Errorf("%q: got %d %v, want %d", c.addr, w.Code, w.Header(), c.status)
		}
	}
}
