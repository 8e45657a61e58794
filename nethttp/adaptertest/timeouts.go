package adaptertest

import (
	"net/http"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
)

// timeoutHandlers checks that of two guards with a TimeoutHandler between them the
// response has the fields of the inner one, if that was asked and has numbers.
func timeoutHandlers(t *testing.T, adapter Adapter) {
	nine := core.PerMinute(9)
	for _, c := range []struct {
		name         string
		outer, inner *core.Limiter
		status       int
		limit, left  string
	}{
		{"both admit", newLimiter(core.PerMinute(3)), newLimiter(nine), 200, "9", "8"},
		{"inner refuses", newLimiter(core.PerMinute(2)), spent().Limiter, 429, "1", "0"},
		{"outer refuses", spent().Limiter, newLimiter(nine), 429, "1", "0"},
		{"inner has no numbers", newLimiter(nine), on(outage, core.PerMinute(1)), 200, "9", "8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inner := adapter.Build(behind(by(c.inner), "GET", "/work", page))
			between := http.TimeoutHandler(inner, time.Hour, "")
			h := adapter.Build(Tree{
				Use:    by(c.outer),
				Routes: []Route{route("GET", "/work", nil, between.ServeHTTP)},
			})
			expect(t, serve(t, h, "GET", "/work"), c.status, c.limit, c.left)
		})
	}
}
