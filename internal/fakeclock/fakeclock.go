// Package fakeclock has limiters for tests whose clock stands still, and sends requests to the handlers that they
// limit.
package fakeclock

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// now is the time of the clock.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Store returns a new store in memory.
func Store() core.Store { return memstore.New(memstore.WithClock(func() time.Time { return now })) }

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

// CheckLimitByIP checks a handler behind LimitByIP with 1 per minute and 9 per hour: each address has the limits, and a
// request without an address is refused.
func CheckLimitByIP(t *testing.T, h http.Handler) {
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
