package adaptertest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/nethttp"
)

// timeoutHandlers checks that two guards with a TimeoutHandler between them leave
// one set of limit fields: the fields of the limit that refused, or else of the
// tighter limit. With http.TimeoutHandler in place of the TimeoutHandler of
// package nethttp, the fields are about the inner limit if it has numbers.
func timeoutHandlers(t *testing.T, adapter Adapter) {
	type timeout = func(http.Handler, time.Duration, string) http.Handler
	three, nine := core.PerMinute(3), core.PerMinute(9)
	aware, standard := nethttp.TimeoutHandler, http.TimeoutHandler
	for _, c := range []struct {
		name         string
		outer, inner *core.Limiter
		between      timeout
		status       int
		limit, left  string
	}{
		{"outer tighter", newLimiter(three), newLimiter(nine), aware, 200, "3", "2"},
		{"inner tighter", newLimiter(nine), newLimiter(three), aware, 200, "3", "2"},
		{"outer tighter, untold", newLimiter(three), newLimiter(nine), standard, 200, "9", "8"},
		{"inner tighter, untold", newLimiter(nine), newLimiter(three), standard, 200, "3", "2"},
		{"inner refuses", newLimiter(core.PerMinute(2)), spent().Limiter, aware, 429, "1", "0"},
		{"inner refuses, untold", newLimiter(core.PerMinute(2)), spent().Limiter, standard, 429, "1", "0"},
		{"outer refuses", spent().Limiter, newLimiter(nine), aware, 429, "1", "0"},
		{"outer has no numbers", on(outage, core.PerMinute(1)), newLimiter(nine), aware, 200, "9", "8"},
		{"inner has no numbers", newLimiter(nine), on(outage, core.PerMinute(1)), standard, 200, "9", "8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inner := adapter.Build(behind(by(c.inner), "GET", "/work", page))
			between := c.between(inner, time.Hour, "")
			h := adapter.Build(Tree{
				Use:    by(c.outer, nethttp.WithHeaders(headers.Classic, headers.IETF)),
				Routes: []Route{route("GET", "/work", nil, between.ServeHTTP)},
			})
			w := serve(t, h, "GET", "/work")
			expect(t, w, c.status, c.limit, c.left)
			if ietf := w.Header()["Ratelimit"]; len(ietf) > 0 && !strings.Contains(ietf[0], ";r="+c.left+";") {
				t.Errorf("X-RateLimit-Remaining is %s beside RateLimit %q", c.left, ietf)
			}
		})
	}
}
