package nethttp_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// TestNested: the fields of the inner guard win, where it has numbers. A refusal tells of the limit that refuses, or of
// none, whatever the guard outside has told.
func TestNested(t *testing.T) {
	xRateLimit, ietf := nethttp.WithHeaders(headers.XRateLimit), nethttp.WithHeaders(headers.IETF)
	none := nethttp.WithHeaders()
	window := nethttp.WithHeaders(headers.XRateLimit.WithWindow())
	ownNames := headers.XRateLimit.WithNames("X-Ratelimited", "X-Ratelimited-Left", "X-Ratelimited-Reset", "")
	own := nethttp.WithHeaders(ownNames)
	outside := limiter(admits(5, 0), nil)
	tighter, refusing := limiter(admits(3, 9*time.Second), nil), limiter(refuses(30*time.Second), nil)
	down := &fakeStore{err: errors.New("down")}
	open, closed := limiter(down, core.FailOpen), limiter(down, core.FailClosed)
	const ofOuter = "X-Ratelimit-Limit:[100] X-Ratelimit-Remaining:[5] X-Ratelimit-Reset:[0]"
	const ofRefusal = "X-Ratelimit-Limit:[100] X-Ratelimit-Remaining:[0] X-Ratelimit-Reset:[30]"
	for _, c := range []struct {
		name    string
		inner   *core.Limiter
		key     keyfuncs.Func
		out, in nethttp.Option
		status  int
		want    string // the limit fields
		behind  bool   // also if a TimeoutHandler is between
	}{
		{"inner tighter", tighter, alice, xRateLimit, xRateLimit, 200,
			"X-Ratelimit-Limit:[100] X-Ratelimit-Remaining:[3] X-Ratelimit-Reset:[9]", true},
		{"both formats stay", tighter, alice, xRateLimit, ietf, 200,
			`Ratelimit:["1m0s";r=3;t=9] Ratelimit-Policy:["1m0s";q=100;w=60] ` + ofOuter, true},
		{"none inside", tighter, alice, xRateLimit, none, 200, ofOuter, true},
		{"inner failed open", open, alice, xRateLimit, xRateLimit, 200, ofOuter, true},

		{"503", closed, alice, xRateLimit, xRateLimit, 503, "", true},
		{"503, other names", closed, alice, own, own, 503, "", true},
		{"503, IETF", closed, alice, ietf, ietf, 503, "", true},
		{"503, mixed", closed, alice, ietf, xRateLimit, 503, "", false},
		{"503, none inside", closed, alice, xRateLimit, none, 503, "", false},
		{"400", refusing, failing(keyfuncs.ErrNoKey), xRateLimit, xRateLimit, 400, "", true},
		{"500", refusing, failing(errors.New("down")), xRateLimit, xRateLimit, 500, "", true},
		{"429", refusing, alice, xRateLimit, xRateLimit, 429, ofRefusal, true},
		{"429, more outside", refusing, alice, window, xRateLimit, 429, ofRefusal, false},
		{"429, mixed", refusing, alice, ietf, xRateLimit, 429, ofRefusal, false},
		{"429, none inside", refusing, alice, xRateLimit, none, 429, "", false},
	} {
		inner, outer := nethttp.Middleware(c.inner, c.key, c.in)(page), nethttp.Middleware(outside, alice, c.out)
		servers := map[string]http.Handler{"nothing": outer(inner)}
		if c.behind {
			servers["a TimeoutHandler"] = outer(http.TimeoutHandler(inner, time.Hour, ""))
		}
		for between, h := range servers {
			w := get(t, h, "/")
			maps.DeleteFunc(w.Header(), func(name string, values []string) bool {
				return len(values) == 0 || !strings.HasPrefix(strings.TrimPrefix(name, "X-"), "Ratelimit")
			})
			if got := fmt.Sprint(w.Header()); w.Code != c.status || got != "map["+c.want+"]" {
				t.Errorf("%s, %s between: got %d %s\nwant %d %s", c.name, between, w.Code, got, c.status, c.want)
			}
		}
	}
}
