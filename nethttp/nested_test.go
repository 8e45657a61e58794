package nethttp_test

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
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
	const quota = "X-Quota-Limit: 100 | X-Quota-Remaining: "
	const refused = "Cache-Control: no-store | Content-Length: 260 | Content-Type: application/problem+json | "
	for _, c := range []struct {
		name         string
		outer, inner core.Store
		out, in      nethttp.Option
		want         string
	}{
		{"outer tighter", admits(3, 9*time.Second), admits(5, 60*time.Second), classic, classic,
			limit + "3 | X-Ratelimit-Reset: 9"},
		{"inner tighter", admits(5, 60*time.Second), admits(3, 9*time.Second), classic, classic,
			limit + "3 | X-Ratelimit-Reset: 9"},
		{"tie, inner takes longer", admits(5, 30*time.Second), admits(5, 31*time.Second), classic, classic,
			limit + "5 | X-Ratelimit-Reset: 31"},
		{"tie, outer takes longer", admits(5, 31*time.Second), admits(5, 30*time.Second), classic, ietf,
			limit + "5 | X-Ratelimit-Reset: 31"},
		{"tie, the outer is first", admits(5, 30*time.Second), admits(5, 30*time.Second), classic, ietf,
			limit + "5 | X-Ratelimit-Reset: 30"},
		{"none left in both", admits(0, 10*time.Second), admits(0, 20*time.Second), ietf, classic,
			limit + "0 | X-Ratelimit-Reset: 20"},

		{"ietf inside classic, inner tighter", admits(5, 0), admits(3, 9*time.Second), classic, ietf,
			`Ratelimit: "1m0s";r=3;t=9` + policy},
		{"ietf inside classic, outer tighter", admits(3, 9*time.Second), admits(5, 0), classic, ietf,
			limit + "3 | X-Ratelimit-Reset: 9"},
		{"classic inside ietf, inner tighter", admits(5, 0), admits(3, 9*time.Second), ietf, classic,
			limit + "3 | X-Ratelimit-Reset: 9"},
		{"classic inside ietf, outer tighter", admits(3, 9*time.Second), admits(5, 0), ietf, classic,
			`Ratelimit: "1m0s";r=3;t=9` + policy},
		{"classic inside both, inner tighter", admits(5, 0), admits(3, 9*time.Second), both, classic,
			limit + "3 | X-Ratelimit-Reset: 9"},
		{"both inside classic, outer tighter", admits(3, 9*time.Second), admits(5, 0), classic, both,
			limit + "3 | X-Ratelimit-Reset: 9"},
		{"classic inside unix with window, inner tighter", admits(5, 0), admits(3, 9*time.Second), unix, classic,
			limit + "3 | X-Ratelimit-Reset: 9"},
		{"tie with unix, outer takes longer", admits(5, 31*time.Second), admits(5, 30*time.Second), unix, ietf,
			limit + "5 | X-Ratelimit-Reset: 1772366431 | X-Ratelimit-Window: 60"},
		{"tie with unix, inner takes longer", admits(5, 30*time.Second), admits(5, 31*time.Second), unix, classic,
			limit + "5 | X-Ratelimit-Reset: 31"},
		{"classic inside other names, inner tighter", admits(5, 0), admits(3, 9*time.Second), renamed, classic,
			quota + "5 | X-Quota-Reset: 0 | " + limit + "3 | X-Ratelimit-Reset: 9"},
		{"other names inside classic, inner tighter", admits(5, 0), admits(3, 9*time.Second), classic, renamed,
			quota + "3 | X-Quota-Reset: 9"},
		{"other names inside classic, outer tighter", admits(3, 9*time.Second), admits(5, 0), classic, renamed,
			limit + "3 | X-Ratelimit-Reset: 9"},
		{"the same other names, inner tighter", admits(5, 0), admits(3, 9*time.Second), renamed, renamed,
			quota + "3 | X-Quota-Reset: 9"},
		{"the same other names, outer tighter", admits(3, 9*time.Second), admits(5, 0), renamed, renamed,
			quota + "3 | X-Quota-Reset: 9"},

		{"none inside classic", admits(5, 0), admits(3, 9*time.Second), classic, none,
			limit + "5 | X-Ratelimit-Reset: 0"},
		{"classic inside none", admits(3, 9*time.Second), admits(5, 0), none, classic,
			limit + "5 | X-Ratelimit-Reset: 0"},
		{"inner failed open", admits(5, 0), down, classic, classic, limit + "5 | X-Ratelimit-Reset: 0"},
		{"outer failed open", down, admits(5, 0), classic, classic, limit + "5 | X-Ratelimit-Reset: 0"},

		{"inner refuses, outer has none left", admits(0, time.Hour), refuses(30 * time.Second), classic, classic,
			refused + "Retry-After: 30 | " + limit + "0 | X-Ratelimit-Reset: 30"},
		{"inner refuses in another format", admits(5, time.Hour), refuses(30 * time.Second), both, ietf,
			refused + `Ratelimit: "1m0s";r=0;t=30` + policy + " | Retry-After: 30"},
		{"inner without headers refuses", admits(5, time.Hour), refuses(30 * time.Second), both, none,
			refused + "Retry-After: 30"},
	} {
		t.Run(c.name, func(t *testing.T) {
			silent := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
			inner := nethttp.Middleware(limiter(c.inner, nil), alice, c.in)(silent)
			outer := nethttp.Middleware(limiter(c.outer, nil), alice, c.out)
			between := http.NewServeMux()
			between.Handle("/alone", http.TimeoutHandler(inner, time.Hour, ""))
			between.Handle("/told", nethttp.TimeoutHandler(inner, time.Hour, ""))
			once := nethttp.TimeoutHandler(wrapping(inner), time.Hour, "")
			between.Handle("/twice", nethttp.TimeoutHandler(once, time.Hour, ""))
			// An inner guard without the outer header leaves its own fields, if it has any.
			alone := c.want
			if own := flat(fields(t, inner, "/")); own != "" && !strings.Contains(c.want, quota+"5") {
				alone = own
			}
			for _, p := range []struct {
				name, path, want string
				h                http.Handler
			}{
				{"directly", "/", c.want, outer(inner)},
				{"TimeoutHandler", "/", c.want, outer(http.TimeoutHandler(inner, time.Hour, ""))},
				{"TimeoutHandler behind a mux", "/alone", alone, outer(between)},
				{"nethttp.TimeoutHandler behind a mux", "/told", c.want, outer(between)},
				{"two of them", "/twice", c.want, outer(between)},
			} {
				if got := flat(fields(t, p.h, p.path)); got != p.want {
					t.Errorf("%s:\n got %s\nwant %s", p.name, got, p.want)
				}
			}
		})
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

// wrapping puts a wrapper around the ResponseWriter, as a logger does.
func wrapping(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(wrapper{w}, r) })
}

type wrapper struct{ http.ResponseWriter }

func (w wrapper) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A handler that runs into the timeout leaves the outer guard's fields, also if
// the inner limit is the tighter one. On the machine's clock the timeout might
// pass before the inner guard is asked.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waiting := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		inner := nethttp.Middleware(limiter(admits(3, 9*time.Second), nil), alice)(waiting)
		late := http.TimeoutHandler(inner, time.Millisecond, "late")
		w := get(t, nethttp.Middleware(limiter(admits(5, 0), nil), alice)(late), "/")
		if got := w.Header()["X-Ratelimit-Remaining"]; w.Code != 503 || w.Body.String() != "late" ||
			!slices.Equal(got, []string{"5"}) {
			t.Errorf("got %d %q, Remaining %q; want 503 \"late\" 5", w.Code, w.Body, got)
		}
	})
}

// Guards inside guards around a TimeoutHandler: the tightest limit's fields are
// left, wherever it stands.
func TestNestedDeepAroundTimeout(t *testing.T) {
	for _, left := range [][4]int64{
		{1, 2, 3, 4}, {2, 1, 3, 4}, {3, 2, 1, 4}, {4, 3, 2, 1}, {2, 3, 1, 4}, {3, 4, 2, 1},
	} {
		h := http.Handler(page)
		for i, remaining := range slices.Backward(left[:]) {
			format := []headers.Format{headers.Classic, headers.IETF}[i%2]
			h = nethttp.Middleware(limiter(admits(remaining, 0), nil), alice, nethttp.WithHeaders(format))(h)
			if i%2 == 1 {
				h = http.TimeoutHandler(h, time.Hour, "")
			}
		}
		got := fields(t, h, "/")
		delete(got, "Content-Type")
		classic := len(got["X-Ratelimit-Remaining"]) == 1 && got.Get("X-RateLimit-Remaining") == "1"
		ietf := len(got["Ratelimit"]) == 1 && strings.Contains(got.Get("RateLimit"), ";r=1;")
		if classic == ietf || len(got) > 3 {
			t.Errorf("limits with %v left: got %s; want one set, with 1 left", left, flat(got))
		}
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
