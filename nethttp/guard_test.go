package nethttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// flat writes a header as one line, sorted by name.
func flat(h http.Header) string {
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(h)) {
		fields = append(fields, name+": "+strings.Join(h[name], " + "))
	}
	return strings.Join(fields, " | ")
}

func TestAnswers(t *testing.T) {
	down := &fakeStore{err: errors.New("dial tcp: secret-host refused")}
	fallen, errKey := refuses(30*time.Second), errors.New("sash: secret-host is down")
	const fields = "X-Ratelimit-Limit: 100 | X-Ratelimit-Remaining: "
	for _, c := range []struct {
		name   string
		store  core.Store
		policy core.Policy
		key    keyfuncs.Func
		opts   []nethttp.Option
		ctx    func(context.Context) context.Context

		status int
		err    error  // of the event
		header string // without Content-Length and Content-Type
		body   string // a part of it; "-" for none
	}{
		{name: "admitted", store: admits(42, 16*time.Second+1), status: 200,
			header: fields + "42 | X-Ratelimit-Reset: 17", body: "page"},
		{name: "refused", store: refuses(29500 * time.Millisecond), status: 429,
			header: "Cache-Control: no-store | Retry-After: 30 | " + fields + "0 | X-Ratelimit-Reset: 30",
			body:   `"retry_after":30`},
		{name: "never", store: &fakeStore{decision: core.Decision{Limit: minute, Remaining: 7, RetryAfter: core.Never}},
			status: 429, header: "Cache-Control: no-store | " + fields + "7 | X-Ratelimit-Reset: 0",
			body: "quota-exceeded"},
		{name: "both formats", store: refuses(9 * time.Second),
			opts: []nethttp.Option{nethttp.WithHeaders(headers.Classic, headers.IETF)}, status: 429,
			header: `Cache-Control: no-store | Ratelimit: "1m0s";r=0;t=9 | Ratelimit-Policy: "1m0s";q=100;w=60 | ` +
				"Retry-After: 9 | " + fields + "0 | X-Ratelimit-Reset: 9", body: "quota-exceeded"},

		{name: "fail open", store: down, policy: core.FailOpen, status: 200, err: core.ErrStore, body: "page"},
		{name: "fail closed", store: down, policy: core.FailClosed, status: 503, err: core.ErrStore,
			header: "Cache-Control: no-store | Retry-After: 2", body: "#temporary-reduced-capacity"},
		{name: "fallback admits", store: down, policy: core.Fallback(admits(3, time.Second), 1), status: 200,
			err: core.ErrStore, header: fields + "3 | X-Ratelimit-Reset: 1", body: "page"},
		{name: "fallback refuses", store: down, policy: core.Fallback(fallen, 1), status: 429, err: core.ErrStore,
			header: "Cache-Control: no-store | Retry-After: 30 | " + fields + "0 | X-Ratelimit-Reset: 30",
			body:   "quota-exceeded"},

		{name: "request ended before", store: admits(1, 0), ctx: ended, status: 503, err: context.Canceled,
			header: "Cache-Control: no-store", body: "-"},
		{name: "request ended while the key was looked up", store: admits(1, 0), ctx: ended,
			key: failing(fmt.Errorf("lookup: %w", context.Canceled)), status: 503, err: context.Canceled,
			header: "Cache-Control: no-store", body: "-"},

		{name: "no key", store: admits(1, 0), key: failing(fmt.Errorf("no secret-header: %w", keyfuncs.ErrNoKey)),
			status: 400, err: keyfuncs.ErrNoKey, header: "Cache-Control: no-store", body: `"client_unidentified"`},
		{name: "empty key", store: admits(1, 0), key: func(*http.Request) (string, error) { return "", nil },
			status: 400, err: keyfuncs.ErrNoKey, header: "Cache-Control: no-store", body: `"client_unidentified"`},
		{name: "no credential", store: admits(1, 0),
			key:    failing(fmt.Errorf("token: %w", &keyfuncs.UnauthenticatedError{Challenge: `Bearer realm="a"`})),
			status: 401, err: keyfuncs.ErrNoKey, header: `Cache-Control: no-store | Www-Authenticate: Bearer realm="a"`,
			body: `"unauthenticated"`},
		{name: "no credential, no challenge", store: admits(1, 0), key: failing(&keyfuncs.UnauthenticatedError{}),
			status: 401, err: keyfuncs.ErrNoKey, header: "Cache-Control: no-store | Www-Authenticate: Bearer",
			body: `"unauthenticated"`},
		{name: "key function fails", store: admits(1, 0), key: failing(errKey), status: 500, err: errKey,
			header: "Cache-Control: no-store", body: `"internal_error"`},
		{name: "negative cost", store: admits(1, 0),
			opts: []nethttp.Option{nethttp.WithCost(func(*http.Request) int { return -1 })}, status: 500,
			err: core.ErrInvalid, header: "Cache-Control: no-store", body: `"internal_error"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.key == nil {
				c.key = alice
			}
			reached := false
			c.opts = append(c.opts, nethttp.WithOutageRetryAfter(1200*time.Millisecond)) // draws 2 alone
			l, events := observed(c.store, c.policy)
			guard := nethttp.Middleware(l, c.key, c.opts...)
			h := guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				reached = true
				_, _ = io.WriteString(w, "page")
			}))
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			if c.ctx != nil {
				r = r.WithContext(c.ctx(r.Context()))
			}
			w := serve(h, r)
			if w.Code != c.status || reached != (c.status == 200) {
				t.Errorf("status %d, handler reached: %v; want %d", w.Code, reached, c.status)
			}
			if len(*events) != 1 || nethttp.Status((*events)[0].Decision) != c.status ||
				!errors.Is((*events)[0].Decision.Err, c.err) {
				t.Errorf("got the events %+v, want one with %d and %v", *events, c.status, c.err)
			}
			body := w.Body.String()
			if c.body == "-" && body != "" || c.body != "-" && !strings.Contains(body, c.body) {
				t.Errorf("body %q; want %q", body, c.body)
			}
			for _, secret := range []string{"secret", "alice", "context", "dial"} {
				if strings.Contains(body, secret) {
					t.Errorf("the body tells %q: %s", secret, body)
				}
			}
			h2 := w.Header()
			if length := h2.Get("Content-Length"); !reached && body != "" && length != fmt.Sprint(len(body)) {
				t.Errorf("Content-Length %q of a body of %d bytes", length, len(body))
			}
			h2.Del("Content-Length")
			h2.Del("Content-Type")
			if got := flat(h2); got != c.header {
				t.Errorf("header\n got %s\nwant %s", got, c.header)
			}
		})
	}
}

func failing(err error) keyfuncs.Func {
	return func(*http.Request) (string, error) { return "", err }
}

func ended(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

func TestSkipPaths(t *testing.T) {
	for target, skipped := range map[string]bool{
		"/health":                 true,
		"/health?full=1":          true,
		"/caf%C3%A9":              true, // as clients send it: escaped in the usual way
		"/café":                   false,
		"http://elsewhere/health": true,
		"/":                       false,
		"/health/":                false,
		"//health":                false,
		"/%68ealth":               false,
		"/health;a=b":             false,
		"/stripped/health":        true,
		"/stripped/he%61lth":      false,
	} {
		s := admits(1, 0)
		h := guarded(s, nethttp.SkipPaths("/health"), nethttp.SkipPaths("/ready", "/café"))
		if strings.HasPrefix(target, "/stripped") {
			h = http.StripPrefix("/stripped", h)
		}
		w := serve(h, request(t, target))
		if got := s.calls.Load() == 0; got != skipped || w.Body.String() != "page" {
			t.Errorf("%s: skipped %v, want %v; body %q", target, got, skipped, w.Body)
		}
		if got := flat(w.Header()); skipped && strings.Contains(got, "X-Ratelimit") {
			t.Errorf("%s: a skipped request has fields: %s", target, got)
		}
	}
}

// request parses a target as a server does.
func request(t *testing.T, target string) *http.Request {
	t.Helper()
	u, err := url.ParseRequestURI(target)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.URL = u
	return r
}

func TestSkip(t *testing.T) {
	s := refuses(time.Second)
	asked := 0
	key := func(*http.Request) (string, error) { asked++; return "k", nil }
	preflight := func(r *http.Request) bool { return r.Method == http.MethodOptions }
	internal := func(r *http.Request) bool { return r.Header.Get("X-Internal") != "" }
	h := nethttp.Middleware(limiter(s, nil), key, nethttp.Skip(preflight), nethttp.Skip(internal))(page)
	for _, r := range []*http.Request{
		httptest.NewRequest(http.MethodOptions, "/", nil), httptest.NewRequest(http.MethodGet, "/", nil),
	} {
		r.Header.Set("X-Internal", "1")
		if w := serve(h, r); w.Code != 200 || len(w.Header()) != 1 { // Content-Type, from the recorder
			t.Errorf("%s: %d %v", r.Method, w.Code, w.Header())
		}
	}
	if asked != 0 || s.calls.Load() != 0 {
		t.Errorf("skipped requests asked for %d keys and the store %d times", asked, s.calls.Load())
	}
	if w := get(t, h, "/"); w.Code != 429 {
		t.Errorf("an ordinary request got %d", w.Code)
	}
}

func TestWithRefusal(t *testing.T) {
	var got core.Decision
	custom := nethttp.WithRefusal(func(w http.ResponseWriter, r *http.Request, d core.Decision) {
		got = d
		w.Header().Set("X-Custom", "1")
		nethttp.Refuse(w, r, d)
	})
	w := get(t, guarded(refuses(30*time.Second), custom), "/")
	if w.Code != 429 || w.Header().Get("X-Custom") != "1" || w.Header().Get("Retry-After") != "30" ||
		got.RetryAfter != 30*time.Second {
		t.Errorf("%d %v, decision %+v", w.Code, w.Header(), got)
	}
	cause := errors.New("cause")
	w = serve(nethttp.Middleware(limiter(admits(1, 0), nil), failing(cause), custom)(page),
		httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != 500 || !errors.Is(got.Err, cause) {
		t.Errorf("%d, decision %+v", w.Code, got)
	}
}

func TestConstructionErrors(t *testing.T) {
	l := limiter(admits(1, 0), nil)
	rules := core.Must(core.New(core.Config{Name: "api", Store: memstore.New()}))
	for _, c := range []struct {
		limiter *core.Limiter
		key     keyfuncs.Func
		opt     nethttp.Option
		want    string
	}{
		{nil, alice, nethttp.SkipPaths(), "core.New"},
		{new(core.Limiter), alice, nethttp.SkipPaths(), "core.New"},
		{rules, alice, nethttp.SkipPaths(), `limiter "api" has no limits: give one of its rules`},
		{l, alice, nethttp.Together(nethttp.Pair{Limiter: rules, Key: alice}), `pair 0 of Together: limiter "api" has no`},
		{l, nil, nethttp.SkipPaths(), "keyfuncs.RemoteIP"},
		{l, alice, nil, "option"},
		{l, alice, nethttp.SkipPaths("/ok", "health"), `"health"`},
		{l, alice, nethttp.Skip(nil), "Skip(nil)"},
		{l, alice, nethttp.WithCost(nil), "WithCost(nil)"},
		{l, alice, nethttp.WithRefusal(nil), "give a func(http.ResponseWriter, *http.Request, core.Decision)"},
		{l, alice, nethttp.WithOutageRetryAfter(0), "1s"},
		{l, alice, nethttp.WithOutageRetryAfter(24*time.Hour + 1), "24h0m0s"},
		{l, alice, nethttp.WithRetryJitter(0), "1s"},
		{l, alice, nethttp.WithRetryJitter(24*time.Hour + 1), "24h0m0s"},
		{l, alice, nethttp.CountWhen(nil), "CountWhen(nil)"},
		{l, alice, nethttp.WithLabel(nethttp.PatternIn(nil)), "WithLabel(nil)"},
		{l, alice, nethttp.WithLimits(nil), "WithLimits(nil)"},
		{l, alice, nethttp.WithLimiter(nil), "WithLimiter(nil)"},
		{l, alice, nethttp.ShadowWhile(nil), "ShadowWhile(nil)"},
		{l, alice, nethttp.SkipKeys(nil), "SkipKeys(nil)"},
		{l, alice, nethttp.Together(), "at least one"},
		{l, alice, nethttp.Together(nethttp.Pair{Key: alice}), "pair 0 of Together: the limiter is nil"},
		{l, alice, nethttp.Together(nethttp.Pair{Limiter: new(core.Limiter), Key: alice}), "zero Limiter"},
		{l, alice, nethttp.Together(nethttp.Pair{Limiter: l, Key: alice}, nethttp.Pair{Limiter: l}), "pair 1 of Together"},
		{l, alice, nethttp.CostAfter(nil), "CostAfter(nil)"},
		{l, alice, nethttp.WithHeaders(headers.Classic, nil), "headers.Classic"},
		{l, alice, nethttp.WithHeaders(headers.Expose(nil)), "nil for a format"},
	} {
		if _, err := nethttp.New(c.limiter, c.key, c.opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v does not say %q", err, c.want)
		}
		if !panics(func() { nethttp.Middleware(c.limiter, c.key, c.opt) }) {
			t.Errorf("Middleware does not panic where New says %q", c.want)
		}
	}
	_, err := nethttp.New(l, alice, nethttp.CountWhen(func(*http.Request, int) bool { return true }),
		nethttp.CostAfter(func(*http.Request, int, int64) int { return 1 }))
	if err == nil || !strings.Contains(err.Error(), "give CostAfter alone") {
		t.Errorf("CountWhen and CostAfter: got %v, want an error that says give CostAfter alone", err)
	}
	_, err = nethttp.New(l, alice, nethttp.CountWhen(func(*http.Request, int) bool { return true }),
		nethttp.Together(nethttp.Pair{Limiter: l, Key: alice}))
	if err == nil || !strings.Contains(err.Error(), "Together does not go together with CountWhen") {
		t.Errorf("CountWhen and Together: got %v, want an error that says so", err)
	}
}

func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}

// Options keep what they were given, whatever the caller does with its slice.
func TestOptionsCopy(t *testing.T) {
	paths, formats := []string{"/health"}, []headers.Format{headers.Classic}
	skip, with := nethttp.SkipPaths(paths...), nethttp.WithHeaders(formats...)
	paths[0], formats[0] = "/", headers.IETF
	s := admits(1, 0)
	w := get(t, guarded(s, skip, with), "/")
	if s.calls.Load() != 1 || w.Header().Get("X-RateLimit-Limit") == "" {
		t.Errorf("%d calls, %v", s.calls.Load(), w.Header())
	}
}

// What a handler does to its header stays in its response, and in that field.
func TestHeadersAreNotShared(t *testing.T) {
	g, err := nethttp.New(limiter(refuses(30*time.Second), nil), alice,
		nethttp.WithHeaders(headers.Classic, headers.IETF))
	if err != nil {
		t.Fatal(err)
	}
	respond := func() http.Header {
		w := httptest.NewRecorder()
		g.Check(w, httptest.NewRequest(http.MethodGet, "/", nil))
		return w.Header()
	}
	want := respond()
	for name := range want {
		h := respond()
		h.Add(name, "added")
		h[name][0] = "changed"
		if h[name] = want[name]; flat(h) != flat(want) {
			t.Errorf("appending to %s changed the others to %s", name, flat(h))
		}
	}
	if got := respond(); flat(got) != flat(want) {
		t.Errorf("the next response has\n%s\nwant\n%s", flat(got), flat(want))
	}
}
