package nethttp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
)

// TestLimitByIP: each address has the limits, and each call counts for itself. A request without an address is refused.
func TestLimitByIP(t *testing.T) {
	h := nethttp.LimitByIP(core.PerMinute(1), core.PerHour(9))(page)
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
	if w := get(t, nethttp.LimitByIP(core.PerMinute(2))(page), "/"); w.Header().Get("X-RateLimit-Remaining") != "1" {
		t.Errorf("another call: got %v, want a count of its own", w.Header())
	}
	for want, limits := range map[string][]core.Limit{
		`limiter "LimitByIP": no limits: give at least one`:   nil,
		`limiter "LimitByIP": limit "1m0s" allows 0 requests`: {core.PerMinute(0)},
		`limiter "LimitByIP": two limits are named "1m0s"`:    {core.PerMinute(1), core.PerMinute(2)},
	} {
		if got := panicOf(func() { nethttp.LimitByIP(limits...) }); !strings.Contains(got, want) {
			t.Errorf("%v: got the panic %q, want %q", limits, got, want)
		}
	}
}
