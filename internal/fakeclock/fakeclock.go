// Package fakeclock has limiters for tests whose clock stands still, and sends requests to the handlers that they
// limit.
package fakeclock

import (
	"net/http"
	"net/http/httptest"
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
