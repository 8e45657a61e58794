package nethttp_test

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// TestNested: the fields of the inner guard win, where it has numbers, and a refusal has its own.
func TestNested(t *testing.T) {
	classic, ietf := nethttp.WithHeaders(headers.Classic), nethttp.WithHeaders(headers.IETF)
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
		{"outer tighter", admits(3, 9*time.Second), admits(5, 60*time.Second), classic, classic,
			limit + "5 | X-Ratelimit-Reset: 60"},
		{"both formats stay", admits(5, 0), admits(3, 9*time.Second), classic, ietf,
			`Ratelimit: "1m0s";r=3;t=9` + policy + " | " + limit + "5 | X-Ratelimit-Reset: 0"},
		{"none inside", admits(5, 0), admits(3, 9*time.Second), classic, none, limit + "5 | X-Ratelimit-Reset: 0"},
		{"inner failed open", admits(5, 0), down, classic, classic, limit + "5 | X-Ratelimit-Reset: 0"},
		{"inner refuses", admits(0, time.Hour), refuses(30 * time.Second), classic, classic,
			refused + "Retry-After: 30 | " + limit + "0 | X-Ratelimit-Reset: 30"},
	} {
		t.Run(c.name, func(t *testing.T) {
			silent := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
			inner := nethttp.Middleware(limiter(c.inner, nil), alice, c.in)(silent)
			outer := nethttp.Middleware(limiter(c.outer, nil), alice, c.out)
			for between, h := range map[string]http.Handler{
				"nothing":          outer(inner),
				"a TimeoutHandler": outer(http.TimeoutHandler(inner, time.Hour, "")),
			} {
				if got := flat(fields(t, h, "/")); got != c.want {
					t.Errorf("%s between:\n got %s\nwant %s", between, got, c.want)
				}
			}
		})
	}
}

// TestNestedRefusals: a refusal tells of the limit that refuses, or of none, whatever the guard outside has told.
func TestNestedRefusals(t *testing.T) {
	classic, ietf := nethttp.WithHeaders(headers.Classic), nethttp.WithHeaders(headers.IETF)
	window := nethttp.WithHeaders(headers.Classic.WithWindow())
	own := nethttp.WithHeaders(headers.Classic.WithNames("X-Quota", "X-Quota-Left", "X-Quota-Reset", ""))
	refusing := limiter(refuses(30*time.Second), nil)
	down := limiter(&fakeStore{err: errors.New("down")}, core.FailClosed)
	nameless := func(*http.Request) (string, error) { return "", keyfuncs.ErrNoKey }
	const numbers = "X-Ratelimit-Limit X-Ratelimit-Remaining X-Ratelimit-Reset"
	for _, c := range []struct {
		name    string
		inner   *core.Limiter
		key     func(*http.Request) (string, error)
		out, in nethttp.Option
		status  int
		want    string // the names of the limit fields
		behind  bool   // also if a TimeoutHandler is between
	}{
		{"503", down, alice, classic, classic, 503, "", true},
		{"503, other names", down, alice, own, own, 503, "", true},
		{"503, IETF", down, alice, ietf, ietf, 503, "", true},
		{"503, mixed", down, alice, ietf, classic, 503, "", false},
		{"503, none inside", down, alice, classic, nethttp.WithHeaders(), 503, "", false},
		{"400", refusing, nameless, classic, classic, 400, "", true},
		{"500", refusing, failing(errors.New("down")), classic, classic, 500, "", true},
		{"429", refusing, alice, classic, classic, 429, numbers, true},
		{"429, more outside", refusing, alice, window, classic, 429, numbers, false},
		{"429, mixed", refusing, alice, ietf, classic, 429, numbers, false},
		{"429, none inside", refusing, alice, classic, nethttp.WithHeaders(), 429, "", false},
	} {
		inner := nethttp.Middleware(c.inner, c.key, c.in)(page)
		outer := nethttp.Middleware(limiter(admits(5, 0), nil), alice, c.out)
		for between, h := range map[string]http.Handler{
			"nothing":          outer(inner),
			"a TimeoutHandler": outer(http.TimeoutHandler(inner, time.Hour, "")),
		} {
			if between != "nothing" && !c.behind {
				continue
			}
			w := get(t, h, "/")
			var got []string
			for name, values := range w.Header() {
				if len(values) > 0 && strings.HasPrefix(strings.TrimPrefix(name, "X-"), "Ratelimit") ||
					strings.HasPrefix(name, "X-Quota") && len(values) > 0 {
					got = append(got, name)
				}
			}
			slices.Sort(got)
			if w.Code != c.status || strings.Join(got, " ") != c.want {
				t.Errorf("%s, %s between: got %d with %q, want %d with %q", c.name, between, w.Code, got, c.status, c.want)
			}
		}
	}
}

// fields returns what a client sees of a response's header, without what
// httptest.ResponseRecorder adds to a body that is empty.
func fields(t *testing.T, h http.Handler, path string) http.Header {
	t.Helper()
	w := get(t, h, path)
	if w.Body.Len() == 0 {
		w.Header().Del("Content-Type")
	}
	maps.DeleteFunc(w.Header(), func(_ string, values []string) bool { return len(values) == 0 })
	return w.Header()
}
