package nethttp_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
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

// What the bodies of refusals have in common.
const (
	exceeded = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
		`"title":"Too Many Requests","status":429,"detail":"`
	reached     = exceeded + "The limit on requests is reached." + limited
	limited     = `","error":"rate_limit_exceeded",`
	violated    = `"violated-policies":["1m0s"]}`
	limited30   = reached + `"retry_after":30,` + violated
	unavailable = `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",` +
		`"title":"Service Unavailable","status":503,` +
		`"detail":"The limit on requests cannot be checked at the moment.",` +
		`"error":"rate_limiter_unavailable","retry_after":2}`
	unidentified = `{"type":"about:blank","title":"Bad Request","status":400,` +
		`"detail":"The request does not identify its client.","error":"client_unidentified"}`
	unauthenticated = `{"type":"about:blank","title":"Unauthorized","status":401,` +
		`"detail":"The request needs a credential that is known here, such as an API key.","error":"unauthenticated"}`
	failed = `{"type":"about:blank","title":"Internal Server Error","status":500,` +
		`"detail":"The limit on requests could not be checked.","error":"internal_error"}`
)

// TestAnswers: what the client gets, the observer, and the function of WithRefusal. The body is JSON, whatever the
// client accepts, and tells no input of the client and no error. Of a request that a key function refuses by a limiter
// of its own, the guard's limiter is not asked and has no event.
func TestAnswers(t *testing.T) {
	down := &fakeStore{err: errors.New("dial tcp: secret-host refused")}
	costly := core.Decision{Limit: minute, Remaining: 7, RetryAfter: core.Never}
	fallen, errKey := refuses(30*time.Second), errors.New("sash: secret-host is down")
	inside := refuses(time.Minute).decision
	inside.Limit = core.PerMinute(3).Named("failures")
	forged := inside
	forged.Allowed = true
	refusedWith := func(d core.Decision) keyfuncs.Func {
		return failing(fmt.Errorf("lookup: %w", &keyfuncs.RefusedError{Decision: d}))
	}
	planFails := nethttp.WithLimiter(func(*http.Request, string) (*core.Limiter, error) {
		return nil, errors.Join(context.DeadlineExceeded, context.Canceled, core.ErrStore, keyfuncs.ErrNoKey)
	})
	negative := nethttp.WithCost(func(*http.Request) int { return -1 })
	gone, leave := context.WithCancel(t.Context())
	leave()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	const fields = "X-Ratelimit-Limit:[100] X-Ratelimit-Remaining:["
	const after2, after30 = "Retry-After:[2]", "Retry-After:[30] " + fields + "0] X-Ratelimit-Reset:[30]"
	const threeLeft = fields + "3] X-Ratelimit-Reset:[1]"
	const ofFailures = `Ratelimit:["failures";r=0;t=60] Ratelimit-Policy:["failures";q=3;w=60] ` +
		"Retry-After:[60] X-Ratelimit-Limit:[3] X-Ratelimit-Remaining:[0] X-Ratelimit-Reset:[60]"
	const failuresBody = reached + `"retry_after":60,"violated-policies":["failures"]}`
	for _, c := range []struct {
		name   string
		store  core.Store // default: admits
		policy core.Policy
		key    keyfuncs.Func // default: alice
		opt    nethttp.Option
		ctx    context.Context // default: that of the test

		status int
		err    error  // of the event
		header string // without Content-Type, and without the Cache-Control of each refusal
		body   string
		silent bool // there is no event
	}{
		{name: "admitted", store: admits(42, 16*time.Second+1), status: 200,
			header: fields + "42] X-Ratelimit-Reset:[17]", body: "page"},
		{name: "refused", store: refuses(29500 * time.Millisecond), status: 429, header: after30, body: limited30},
		{name: "never", store: &fakeStore{decision: costly}, status: 429,
			header: fields + "7] X-Ratelimit-Reset:[0]",
			body:   exceeded + "This request costs more than the limit ever allows." + limited + violated},
		{name: "both formats, for a second", store: refuses(time.Millisecond), opt: bothFormats, status: 429,
			header: `Ratelimit:["1m0s";r=0;t=1] Ratelimit-Policy:["1m0s";q=100;w=60] ` +
				"Retry-After:[1] " + fields + "0] X-Ratelimit-Reset:[1]",
			body: reached + `"retry_after":1,` + violated},

		{name: "fail open", store: down, policy: core.FailOpen, status: 200, err: core.ErrStore, body: "page"},
		{name: "fail closed", store: down, policy: core.FailClosed, status: 503, err: core.ErrStore,
			header: after2, body: unavailable},
		{name: "fallback admits", store: down, policy: core.Fallback(admits(3, time.Second), 1), status: 200,
			err: core.ErrStore, header: threeLeft, body: "page"},
		{name: "fallback refuses", store: down, policy: core.Fallback(fallen, 1), status: 429, err: core.ErrStore,
			header: after30, body: limited30},

		{name: "client left before", ctx: gone, status: 499, err: context.Canceled},
		{name: "too late for a handler outside", ctx: late, status: 503, err: context.DeadlineExceeded,
			header: after2, body: unavailable},
		{name: "client left while the key was looked up", ctx: gone,
			key: failing(fmt.Errorf("lookup: %w", context.Canceled)), status: 499, err: context.Canceled},

		{name: "no key", key: failing(fmt.Errorf("no secret-header: %w", keyfuncs.ErrNoKey)),
			status: 400, err: keyfuncs.ErrNoKey, body: unidentified},
		{name: "empty key", key: failing(nil), status: 400, err: keyfuncs.ErrNoKey, body: unidentified},
		{name: "bad request", key: failing(fmt.Errorf("cookie: %w", keyfuncs.ErrBadRequest)),
			status: 400, err: keyfuncs.ErrBadRequest, body: unidentified},
		{name: "no credential",
			key:    failing(fmt.Errorf("token: %w", &keyfuncs.UnauthenticatedError{Challenge: `Bearer realm="a"`})),
			status: 401, err: keyfuncs.ErrNoKey, header: `Www-Authenticate:[Bearer realm="a"]`, body: unauthenticated},
		{name: "no credential, no challenge", key: failing(&keyfuncs.UnauthenticatedError{}),
			status: 401, err: keyfuncs.ErrNoKey, header: "Www-Authenticate:[Bearer]", body: unauthenticated},
		{name: "key function fails", key: failing(errKey), status: 500, err: errKey, body: failed},
		{name: "limiter of a client that left", opt: planFails, ctx: gone, status: 499, err: context.Canceled},
		{name: "limiter fails", opt: planFails, status: 200, err: core.ErrLimits, body: "page"},
		{name: "limiter fails, closed", opt: planFails, policy: core.FailClosed, status: 503, err: core.ErrLimits,
			header: after2, body: unavailable},
		{name: "limiter fails, fallback", opt: planFails, policy: core.Fallback(admits(3, time.Second), 1), status: 200,
			err: core.ErrLimits, header: threeLeft, body: "page"},
		{name: "negative cost", opt: negative, status: 200, err: core.ErrLimits, body: "page"},
		{name: "negative cost, closed", opt: negative, policy: core.FailClosed, status: 503, err: core.ErrLimits,
			header: after2, body: unavailable},

		{name: "key function refuses", key: refusedWith(inside), opt: bothFormats, status: 429,
			header: ofFailures, body: failuresBody, silent: true},
		{name: "key function refuses and allows", key: refusedWith(forged), opt: bothFormats, status: 429,
			header: ofFailures, body: failuresBody, silent: true},
		{name: "key function refuses without a limit", key: refusedWith(core.Decision{}), status: 429,
			header: "Retry-After:[1]", silent: true,
			body: reached + `"retry_after":1}`},
		{name: "key function of a client that left", key: refusedWith(core.Decision{Err: context.Canceled}),
			status: 499, err: context.Canceled, silent: true},
		{name: "key function without a store", key: refusedWith(core.Decision{Err: core.ErrStoreFull}), status: 503,
			err: core.ErrStoreFull, header: after2, body: unavailable, silent: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.key == nil {
				c.key = alice
			}
			if c.status != 200 {
				c.header = strings.TrimSuffix("Cache-Control:[no-store] "+c.header, " ")
			}
			l, events := observed(cmp.Or(c.store, core.Store(admits(1, 0))), c.policy)
			opt := cmp.Or(c.opt, nethttp.WithHeaders(headers.XRateLimit))
			draws := nethttp.WithOutageRetryAfter(1200 * time.Millisecond) // 2 alone
			var seen core.Decision
			own := nethttp.WithRefusal(func(w http.ResponseWriter, r *http.Request, d core.Decision) {
				seen = d
				nethttp.Refuse(w, r, d)
			})
			for own, opts := range map[bool][]nethttp.Option{false: {opt, draws}, true: {opt, draws, own}} {
				*events, seen = nil, core.Decision{Allowed: true, Err: c.err}
				r := httptest.NewRequest(http.MethodGet, "/", nil).WithContext(cmp.Or(c.ctx, t.Context()))
				w := serve(nethttp.Middleware(l, c.key, opts...)(page), r, "Accept", "text/html, text/plain")
				if w.Code != c.status || w.Body.String() != c.body {
					t.Errorf("got %d\n%s\nwant %d\n%s", w.Code, w.Body, c.status, c.body)
				}
				if seen.Allowed == (own && c.status != 200) || !errors.Is(seen.Err, c.err) {
					t.Errorf("the function of WithRefusal got %+v, want the error %v", seen, c.err)
				}
				if len(*events) != map[bool]int{true: 0, false: 1}[c.silent] || !c.silent &&
					(nethttp.Status((*events)[0].Decision) != c.status ||
						!errors.Is((*events)[0].Decision.Err, c.err)) {
					t.Errorf("got the events %+v, want one with %d and %v", *events, c.status, c.err)
				}
				h := w.Header()
				if refused := c.status != 200 && c.body != ""; refused && (!json.Valid(w.Body.Bytes()) ||
					h.Get("Content-Type") != "application/problem+json") {
					t.Errorf("got %v for a problem", h)
				}
				h.Del("Content-Type")
				if want := "map[" + c.header + "]"; fmt.Sprint(h) != want {
					t.Errorf("header\n got %v\nwant %v", h, want)
				}
			}
		})
	}
}

func failing(err error) keyfuncs.Func {
	return func(*http.Request) (string, error) { return "", err }
}

// TestSkipPaths: paths are compared as they are where the guard stands. FuzzSkipPaths has other spellings.
func TestSkipPaths(t *testing.T) {
	for target, skipped := range map[string]bool{
		"/health":                 true,
		"/health?full=1":          true,
		"//health":                false,
		"/caf%C3%A9":              true, // as clients send it: escaped in the usual way
		"/café":                   false,
		"http://elsewhere/health": true,
		"/":                       false,
		"/stripped/health":        true,
		"/stripped/he%61lth":      false,
	} {
		s := admits(1, 0)
		h := guarded(s, nethttp.SkipPaths("/health"), nethttp.SkipPaths("/ready", "/café"))
		if strings.HasPrefix(target, "/stripped") {
			h = http.StripPrefix("/stripped", h)
		}
		w := get(t, h, target)
		if got := s.calls.Load() == 0; got != skipped || w.Body.String() != "page" {
			t.Errorf("%s: skipped %v, want %v; body %q", target, got, skipped, w.Body)
		}
		if skipped && w.Header().Get("X-RateLimit-Limit") != "" {
			t.Errorf("%s: a skipped request has fields: %v", target, w.Header())
		}
	}
}

// TestSkip: each of several functions exempts a request, of which neither the key nor the store is asked.
func TestSkip(t *testing.T) {
	s, keys := refuses(time.Second), 0
	key := func(*http.Request) (string, error) { keys++; return "k", nil }
	preflight := func(r *http.Request) bool { return r.Method == http.MethodOptions }
	internal := func(r *http.Request) bool { return r.Header.Get("X-Internal") != "" }
	h := nethttp.Middleware(limiter(s, nil), key, nethttp.Skip(preflight), nethttp.Skip(internal))(page)
	for method, value := range map[string]string{"OPTIONS": "", "GET": "1"} {
		w := serve(h, httptest.NewRequest(method, "/", nil), "X-Internal", value)
		if w.Code != 200 || len(w.Header()) != 1 || keys+int(s.calls.Load()) != 0 { // Content-Type, from the recorder
			t.Errorf("%s: got %d %v, %d keys and %d calls", method, w.Code, w.Header(), keys, s.calls.Load())
		}
	}
	if w := get(t, h, "/"); w.Code != 429 {
		t.Errorf("an ordinary request got %d", w.Code)
	}
}

// ownFormat is a format of a program's own, maybe with a mistake.
type ownFormat struct{ names []string }

func (*ownFormat) Write(http.Header, []core.Limit, core.Decision) {}
func (f *ownFormat) Names() []string                              { return f.names }

// TestConstructionErrors: what cannot work, would panic at a request or break a response is an error of New, which says
// what to give instead.
func TestConstructionErrors(t *testing.T) {
	l := limiter(admits(1, 0), nil)
	login := core.Must(l.Rule("login", minute))
	yes := nethttp.CountWhen(func(*http.Request, int) bool { return true })
	dear := nethttp.CostAfter(func(*http.Request, int, int64) int { return 1 })
	all, names := nethttp.DecideAll, headers.XRateLimit.WithNames
	format := func(f headers.Format) nethttp.Option { return nethttp.WithHeaders(headers.IETF, f) }
	own := func(names ...string) nethttp.Option { return format(&ownFormat{names}) }
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
		{l, alice, all(nethttp.Pair{Limiter: rules, Key: alice}), `pair 0 of DecideAll: limiter "api" has no`},
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
		{l, alice, nethttp.WithLabel(nil), "WithLabel(nil)"},
		{l, alice, nethttp.WithLimits(nil), "WithLimits(nil)"},
		{l, alice, nethttp.WithLimiter(nil), "WithLimiter(nil)"},
		{l, alice, nethttp.ShadowWhile(nil), "ShadowWhile(nil)"},
		{l, alice, nethttp.SkipKeys(nil), "SkipKeys(nil)"},
		{l, alice, all(), "at least one"},
		{l, alice, all(nethttp.Pair{Key: alice}), "pair 0 of DecideAll: the limiter is nil"},
		{l, alice, all(nethttp.Pair{Limiter: new(core.Limiter), Key: alice}), "zero Limiter"},
		{l, alice, all(nethttp.Pair{Limiter: l, Key: alice}, nethttp.Pair{Limiter: l}), "pair 1 of DecideAll"},
		{l, alice, nethttp.CostAfter(nil), "CostAfter(nil)"},
		{l, alice, nethttp.WithHeaders(headers.XRateLimit, nil), "headers.XRateLimit"},
		{login, alice, nethttp.SkipPaths(""), `sash: limiter "test", rule "login": SkipPaths("")`},
		{l, alice, nethttp.SkipPaths("get /health"), "capital letters"},
		{l, alice, nethttp.SkipPaths("GET  /health"), "one space"},
		{l, alice, nethttp.SkipPaths("health"), "begins with a slash"},
		{l, alice, nethttp.SkipPaths("a.example/x"), "nethttp.Skip"},
		{l, alice, nethttp.SkipPaths("GET,HEAD /x"), "capital letters"},
		{l, alice, nethttp.SkipPaths("/health*"), "wildcards"},
		{l, alice, nethttp.SkipPaths("/{id}"), "wildcards"},
		{l, alice, nethttp.SkipPaths("/health?x=1"), "queries"},
		{l, alice, nethttp.SkipPaths("GET /health "), "blank"},
		{l, alice, nethttp.SkipPaths("/health\n"), "blank"},
		{l, alice, nethttp.SkipPaths("/hea\x00lth"), "control characters"},
		{l, alice, nethttp.SkipPaths("/caf%C3%A9"), `give "/café"`},
		{l, alice, nethttp.SkipPaths("/%68ealth"), `give "/health"`},
		{l, alice, nethttp.SkipPaths("/a%2fb"), "nethttp.Skip"},
		{l, alice, format((*ownFormat)(nil)), "WithHeaders was given a nil *nethttp_test.ownFormat for a format"},
		{l, alice, own("x-quota"), `names the field "x-quota", which is not the name of a field`},
		{l, alice, format(names("X-A", "X-B", "retry-after", "")), "the field Retry-After, which"},
		{l, alice, own("X-A", "Connection"), "writes the field Connection, which"},
		{l, alice, format(headers.XRateLimitFormat{}), `names the field ""`},
		{l, alice, format(names("a\r\nSet-Cookie", "b", "c", "")), `the field "a\r\nSet-Cookie"`},
		{l, alice, format(names("a", "b", "A", "")), "write the field A twice"},
	} {
		_, err := nethttp.New(c.limiter, c.key, c.opt)
		if err == nil || !strings.HasPrefix(err.Error(), "sash: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v does not say %q", err, c.want)
		}
		if got := panicOf(func() { nethttp.Middleware(c.limiter, c.key, c.opt) }); got != fmt.Sprint(err) {
			t.Errorf("got the panic %q of Middleware, want %v", got, err)
		}
	}
	for want, opt := range map[string]nethttp.Option{
		"give CostAfter alone":                          dear,
		"DecideAll does not go together with CountWhen": all(nethttp.Pair{Limiter: l, Key: alice}),
	} {
		if _, err := nethttp.New(l, alice, yes, opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("beside CountWhen: got the error %v, want one that says %s", err, want)
		}
	}
	paths := nethttp.SkipPaths("/100%", "/50%-off", "/a b", "M-SEARCH /x", "/x#y", "//x", "/café", "/a;b")
	if _, err := nethttp.New(l, alice, paths, own("X-Quota", "X-Tier")); err != nil {
		t.Error(err)
	}
	middleware := nethttp.Middleware(l, alice)
	for want, h := range map[string]http.Handler{
		"nil": nil, "a nil http.HandlerFunc": http.HandlerFunc(nil), "a nil *http.ServeMux": (*http.ServeMux)(nil),
	} {
		got := panicOf(func() { middleware(h) })
		if !strings.HasPrefix(got, "sash: the handler behind the guard is "+want) {
			t.Errorf("the panic %q does not say %q", got, want)
		}
	}
}

// panicOf returns what f panics with, or "".
func panicOf(f func()) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprint(r)
		}
	}()
	f()
	return ""
}

// Options keep what they were given, whatever the caller does with its slice.
func TestOptionsCopy(t *testing.T) {
	paths, formats := []string{"/health"}, []headers.Format{headers.XRateLimit}
	pairs := []nethttp.Pair{{Limiter: limiter(admits(1, 0), nil), Key: keyfuncs.AllClients}}
	skip, with, all := nethttp.SkipPaths(paths...), nethttp.WithHeaders(formats...), nethttp.DecideAll(pairs...)
	paths[0], formats[0], pairs[0] = "/", headers.IETF, nethttp.Pair{} // New would refuse the zero Pair
	s := admits(1, 0)
	w := get(t, guarded(s, skip, with, all), "/")
	if s.calls.Load() != 1 || w.Header().Get("X-RateLimit-Limit") == "" {
		t.Errorf("%d calls, %v", s.calls.Load(), w.Header())
	}
}

// TestHeadersAreNotShared: what a handler does to its header stays in its response, and in that field.
func TestHeadersAreNotShared(t *testing.T) {
	guard := guarded(refuses(30*time.Second), nethttp.WithHeaders(headers.XRateLimit.WithWindow(), headers.IETF))
	respond := func() http.Header { return get(t, guard, "/").Header() }
	want := respond()
	for name := range want {
		h := respond()
		h.Add(name, "added")
		h[name][0] = "changed"
		if h[name] = want[name]; !maps.EqualFunc(h, want, slices.Equal) {
			t.Errorf("appending to %s changed the others to %v", name, h)
		}
	}
	if got := respond(); !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("the next response has\n%v\nwant\n%v", got, want)
	}
}

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

// TestDraws: each refusal draws its own wait: a 429 none sooner than the limiter says and none later than by the
// jitter, a 503 from the outage's to twice that. All numbers come, and no other. The response and the decision have
// the same number, and the observer gets the wait of the limiter.
func TestDraws(t *testing.T) {
	const wait = 29300 * time.Millisecond
	jitter, outage := nethttp.WithRetryJitter, nethttp.WithOutageRetryAfter
	down := &fakeStore{err: errors.New("down")}
	never := &fakeStore{decision: core.Decision{Limit: minute, RetryAfter: core.Never}}
	for _, c := range []struct {
		name        string
		store       core.Store
		opts        []nethttp.Option
		least, most int // 0: no Retry-After
	}{
		{"429", refuses(wait), []nethttp.Option{jitter(5700 * time.Millisecond)}, 30, 35},
		{"the last counts", refuses(wait), []nethttp.Option{jitter(time.Hour), jitter(time.Second)}, 30, 31},
		{"never", never, []nethttp.Option{jitter(time.Second)}, 0, 0},
		{"503 by default", down, []nethttp.Option{jitter(time.Hour)}, 5, 10},
		{"503 of one wait", down, []nethttp.Option{outage(1200 * time.Millisecond)}, 2, 2},
		{"503", down, []nethttp.Option{outage(2500 * time.Millisecond)}, 3, 5},
		{"the last counts of 503", down, []nethttp.Option{outage(time.Hour), outage(7 * time.Second)}, 7, 14},
	} {
		var seen core.Decision
		note := nethttp.WithRefusal(func(_ http.ResponseWriter, _ *http.Request, d core.Decision) { seen = d })
		l, events := observed(c.store, core.FailClosed)
		h := nethttp.Middleware(l, alice, append(c.opts, bothFormats, note)...)(page)
		drawn := map[string]bool{}
		for range 1000 { // one of 8 is missing in 1 of 10^57 runs
			*events = nil
			w := get(t, h, "/")
			after := w.Header().Get("Retry-After")
			drawn[after] = true
			if after == "" {
				continue
			}
			seconds := fmt.Sprint(math.Ceil(seen.RetryAfter.Seconds()))
			ok := w.Code == 503 || strings.HasSuffix(w.Header().Get("RateLimit"), ";t="+after) &&
				w.Header().Get("X-RateLimit-Reset") == "30" && (*events)[0].Decision.RetryAfter == wait
			if !ok || seconds != after ||
				!strings.Contains(w.Body.String(), `"retry_after":`+after) {
				t.Fatalf("%s: got %d %v %s, %v, %v", c.name, w.Code, w.Header(), w.Body, seen.RetryAfter, *events)
			}
		}
		want := map[string]bool{}
		for i := c.least; i <= c.most; i++ {
			want[strings.TrimPrefix(fmt.Sprint(i), "0")] = true
		}
		if !maps.Equal(drawn, want) {
			t.Errorf("%s: got %v, want %v", c.name, drawn, want)
		}
	}
}
