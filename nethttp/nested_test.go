package nethttp_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/nethttp"
)

func TestNested(t *testing.T) {
	classic := nethttp.WithHeaders(headers.Classic)
	unix := nethttp.WithHeaders(headers.Classic.UnixReset().WithWindow())
	renamed := nethttp.WithHeaders(headers.Classic.WithNames("X-Quota-Limit", "X-Quota-Remaining", "X-Quota-Reset", ""))
	ietf := nethttp.WithHeaders(headers.IETF)
	both := nethttp.WithHeaders(headers.IETF, headers.Classic)
	none := nethttp.WithHeaders()
	down := &fakeStore{err: errors.New("down")}

	const policy = ` | Ratelimit-Policy: "1m0s";q=100;w=60`
	const limit = "X-Ratelimit-Limit: 100 | X-Ratelimit-Remaining: "
	const refused = "Cache-Control: no-store | Content-Length: 260 | Content-Type: application/problem+json | "
	for _, c := range []struct {
		name         string
		outer, inner core.Store
		out, in      nethttp.Option
		want         string
	}{
		{"outer tighter", admits(3, 9*time.Second), admits(5, 60*time.Second), classic, classic, limit + "3 | X-Ratelimit-Reset: 9"},
		{"inner tighter", admits(5, 60*time.Second), admits(3, 9*time.Second), classic, classic, limit + "3 | X-Ratelimit-Reset: 9"},
		{"tie, inner takes longer", admits(5, 30*time.Second), admits(5, 31*time.Second), classic, classic, limit + "5 | X-Ratelimit-Reset: 31"},
		{"tie, outer takes longer", admits(5, 31*time.Second), admits(5, 30*time.Second), classic, ietf, limit + "5 | X-Ratelimit-Reset: 31"},
		{"tie, the outer is first", admits(5, 30*time.Second), admits(5, 30*time.Second), classic, ietf, limit + "5 | X-Ratelimit-Reset: 30"},
		{"none left in both", admits(0, 10*time.Second), admits(0, 20*time.Second), ietf, classic, limit + "0 | X-Ratelimit-Reset: 20"},

		{"ietf inside classic, inner tighter", admits(5, 0), admits(3, 9*time.Second), classic, ietf, `Ratelimit: "1m0s";r=3;t=9` + policy},
		{"ietf inside classic, outer tighter", admits(3, 9*time.Second), admits(5, 0), classic, ietf, limit + "3 | X-Ratelimit-Reset: 9"},
		{"classic inside ietf, inner tighter", admits(5, 0), admits(3, 9*time.Second), ietf, classic, limit + "3 | X-Ratelimit-Reset: 9"},
		{"classic inside ietf, outer tighter", admits(3, 9*time.Second), admits(5, 0), ietf, classic, `Ratelimit: "1m0s";r=3;t=9` + policy},
		{"classic inside both, inner tighter", admits(5, 0), admits(3, 9*time.Second), both, classic, limit + "3 | X-Ratelimit-Reset: 9"},
		{"both inside classic, outer tighter", admits(3, 9*time.Second), admits(5, 0), classic, both, limit + "3 | X-Ratelimit-Reset: 9"},
		{"classic inside unix with window, inner tighter", admits(5, 0), admits(3, 9*time.Second), unix, classic, limit + "3 | X-Ratelimit-Reset: 9"},
		{"tie with unix, outer takes longer", admits(5, 31*time.Second), admits(5, 30*time.Second), unix, ietf, limit + "5 | X-Ratelimit-Reset: 1772366431 | X-Ratelimit-Window: 60"},
		{"tie with unix, inner takes longer", admits(5, 30*time.Second), admits(5, 31*time.Second), unix, classic, limit + "5 | X-Ratelimit-Reset: 31"},
		{"classic inside other names, inner tighter", admits(5, 0), admits(3, 9*time.Second), renamed, classic, limit + "3 | X-Ratelimit-Reset: 9"},
		{"classic inside other names, outer tighter", admits(3, 9*time.Second), admits(5, 0), renamed, classic, "X-Quota-Limit: 100 | X-Quota-Remaining: 3 | X-Quota-Reset: 9"},

		{"none inside classic", admits(5, 0), admits(3, 9*time.Second), classic, none, limit + "5 | X-Ratelimit-Reset: 0"},
		{"classic inside none", admits(3, 9*time.Second), admits(5, 0), none, classic, limit + "5 | X-Ratelimit-Reset: 0"},
		{"inner failed open", admits(5, 0), down, classic, classic, limit + "5 | X-Ratelimit-Reset: 0"},
		{"outer failed open", down, admits(5, 0), classic, classic, limit + "5 | X-Ratelimit-Reset: 0"},

		{"inner refuses, outer has none left", admits(0, time.Hour), refuses(30 * time.Second), classic, classic, refused + "Retry-After: 30 | " + limit + "0 | X-Ratelimit-Reset: 30"},
		{"inner refuses in another format", admits(5, time.Hour), refuses(30 * time.Second), both, ietf, refused + `Ratelimit: "1m0s";r=0;t=30` + policy + " | Retry-After: 30"},
		{"inner without headers refuses", admits(5, time.Hour), refuses(30 * time.Second), both, none, refused + "Retry-After: 30"},
	} {
		t.Run(c.name, func(t *testing.T) {
			silent := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
			inner := nethttp.Middleware(limiter(c.inner, nil), alice, c.in)(silent)
			outer := nethttp.Middleware(limiter(c.outer, nil), alice, c.out)(inner)
			if got := flat(get(t, outer, "/").Header()); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// Three deep, and every guard is asked.
func TestNestedDeep(t *testing.T) {
	a, b, c := admits(7, 0), admits(2, 0), admits(4, 0)
	var h http.Handler = page
	for _, s := range []*fakeStore{c, b, a} {
		h = nethttp.Middleware(limiter(s, nil), alice)(h)
	}
	w := get(t, h, "/")
	if got := w.Header().Values("X-RateLimit-Remaining"); len(got) != 1 || got[0] != "2" {
		t.Errorf("Remaining %q", got)
	}
	if a.calls.Load()+b.calls.Load()+c.calls.Load() != 3 {
		t.Error("not every limiter was asked once")
	}
}

// What was there before a guard and is not about limits, or not understood,
// does not stop it.
func TestForeignFieldsBefore(t *testing.T) {
	inner := nethttp.Middleware(limiter(admits(3, 9*time.Second), nil), alice)(page)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "1")
		w.Header().Set("X-RateLimit-Remaining", "plenty")
		inner.ServeHTTP(w, r)
	})
	w := get(t, h, "/")
	if w.Header().Get("X-RateLimit-Remaining") != "3" || w.Header().Get("X-Request-Id") != "1" {
		t.Errorf("%v", w.Header())
	}
}
