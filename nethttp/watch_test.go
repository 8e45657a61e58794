package nethttp_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/internal/notice"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// notices collects notices.
type notices struct {
	mu  sync.Mutex // guards all
	all []core.Notice
}

func (n *notices) Observe(context.Context, core.Event) {}
func (n *notices) Notice(_ context.Context, notice core.Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, notice)
}

// expect checks the codes of the notices that came since the last call.
func (n *notices) expect(t *testing.T, what string, codes ...string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	var got []string
	for _, notice := range n.all {
		got = append(got, notice.Code)
	}
	if !slices.Equal(got, codes) {
		t.Errorf("%s: the notices are %q, want %q", what, n.all, codes)
	}
	n.all = nil
}

// newNoticeLimiter returns a limiter whose notices are collected. It is quiet about the codes.
func newNoticeLimiter(quiet ...string) (*core.Limiter, *notices) {
	observer := new(notices)
	return core.Must(core.New(core.Config{
		Name: "test", Store: memstore.New(), Limits: []core.Limit{core.PerHour(100_000)},
		Observer: observer, Quiet: quiet,
	})), observer
}

// TestCountedOnPurpose: guards of one rule that count a request for different clients or
// at different costs, and requests that a handler sends on or makes, are no mistake.
func TestCountedOnPurpose(t *testing.T) {
	twice := func(outer keyfuncs.Func, inner ...nethttp.Option) func(*core.Limiter) http.Handler {
		return func(l *core.Limiter) http.Handler {
			return nethttp.Middleware(l, outer)(nethttp.Middleware(l, alice, inner...)(page))
		}
	}
	around := func(between func(http.ResponseWriter, *http.Request, http.Handler)) func(*core.Limiter) http.Handler {
		return func(l *core.Limiter) http.Handler {
			guard := nethttp.Middleware(l, alice)
			next := guard(page)
			return guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { between(w, r, next) }))
		}
	}
	namesake, _ := newNoticeLimiter()
	other := core.Must(namesake.Rule("other", minute))
	for name, chain := range map[string]func(*core.Limiter) http.Handler{
		"other clients":                    twice(keyfuncs.RemoteIP),
		"the inner guard adds to the cost": twice(alice, nethttp.WithCost(func(*http.Request) int { return 5 })),
		"the inner guard skips":            twice(alice, nethttp.SkipPaths("/a")),
		"another rule by WithLimiter": twice(alice,
			nethttp.WithLimiter(func(*http.Request, string) (*core.Limiter, error) { return other, nil })),
		"another path": around(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			r.URL.Path = "/b"
			next.ServeHTTP(w, r)
		}),
		"requests of the handler's own": around(func(_ http.ResponseWriter, r *http.Request, next http.Handler) {
			for range 3 {
				next.ServeHTTP(httptest.NewRecorder(), r)
			}
		}),
	} {
		l, observer := newNoticeLimiter()
		h := chain(l)
		for range 100 {
			get(t, h, "/a")
		}
		observer.expect(t, name)
	}
}

// TestDoubleCount: a request that is counted twice is noticed, if it is one of the first that the guards see; a
// prefix that was stripped in between does not hide it, and Quiet does.
func TestDoubleCount(t *testing.T) {
	double := func(l *core.Limiter) http.Handler {
		guard := nethttp.Middleware(l, alice)
		mux := http.NewServeMux()
		mux.Handle("/api/", http.StripPrefix("/api", guard(page)))
		mux.Handle("/", page)
		return guard(mux)
	}
	l, observer := newNoticeLimiter()
	get(t, double(l), "/api/items")
	observer.expect(t, "the first request", notice.DoubleCount)

	l, observer = newNoticeLimiter()
	h := double(l)
	for range 44 {
		get(t, h, "/once")
	}
	observer.expect(t, "requests that are counted once")
	get(t, h, "/api/items")
	observer.expect(t, "one of the first", notice.DoubleCount)

	l, observer = newNoticeLimiter(notice.DoubleCount)
	get(t, double(l), "/api/items")
	observer.expect(t, "a quiet limiter")
}

// TestCountedOnce: requests at the same time are told apart, and so are those that use a ResponseWriter again, as
// frameworks do.
func TestCountedOnce(t *testing.T) {
	l, observer := newNoticeLimiter()
	h := nethttp.Middleware(l, alice)(page)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
			for range 200 {
				h.ServeHTTP(w, r)
			}
		})
	}
	all.Wait()
	observer.expect(t, "requests that are counted once")
}

// TestUntrustedProxy: requests that come through a proxy that is not trusted are noticed,
// once, if all come from one private address and most have its header.
func TestUntrustedProxy(t *testing.T) {
	const public, proxy = "203.0.113.7:1234", "10.0.0.5:1234"
	want := []string{notice.UntrustedProxy}
	const beside = "127.0.0.1:1234" // of the proxy and of its client
	trusting := keyfuncs.IP(keyfuncs.TrustProxies(keyfuncs.PrivateRanges()...))
	peer := func(r *http.Request) (string, error) { host, _, _ := strings.Cut(r.RemoteAddr, ":"); return host, nil }
	type userKey struct{}
	user := keyfuncs.UserID(func(ctx context.Context) (string, bool) { return fmt.Sprint(ctx.Value(userKey{})), true })
	for _, c := range []struct {
		name    string
		key     keyfuncs.Func
		peers   []string // in turn
		without int      // of ten requests, those without the header
		want    []string
	}{
		{"RemoteIP", keyfuncs.RemoteIP, []string{proxy}, 0, want},
		{"most requests", keyfuncs.RemoteIP, []string{proxy}, 4, want},
		{"a loopback address", keyfuncs.IP(), []string{"[::1]:1234"}, 0, want},
		{"a part of the key", keyfuncs.Join(user, keyfuncs.RemoteIP), []string{proxy}, 0, want},
		{"two addresses", keyfuncs.RemoteIP, []string{proxy, "10.0.0.6:1234"}, 0, nil},
		{"a key function of the program's own", peer, []string{proxy}, 0, want},
		{"a trusted proxy", trusting, []string{proxy}, 0, nil},
		{"a client beside a trusted proxy", trusting, []string{beside}, 0, nil},
		{"users", user, []string{proxy}, 0, nil},
		{"few requests", keyfuncs.RemoteIP, []string{proxy}, 5, nil},
		{"a public address", keyfuncs.RemoteIP, []string{public}, 0, nil},
		{"public addresses in between", keyfuncs.RemoteIP, []string{proxy, proxy, public}, 0, nil},
	} {
		l, observer := newNoticeLimiter()
		h := nethttp.Middleware(l, c.key)(page)
		for i := range 60 {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = c.peers[i%len(c.peers)]
			r = r.WithContext(context.WithValue(r.Context(), userKey{}, i))
			if i%10 >= c.without {
				r.Header.Set("X-Forwarded-For", "198.51.100.3")
				if r.RemoteAddr == beside {
					r.Header.Set("X-Forwarded-For", "127.0.0.1")
				}
			}
			serve(h, r)
		}
		observer.expect(t, c.name, c.want...)
	}
}

// TestH2C: a request by which a handler may serve HTTP/2 on the connection is noticed, whenever it comes, and no other
// change of the protocol. Where the server itself speaks HTTP/2 without TLS, each request is limited, and none is
// noticed.
func TestH2C(t *testing.T) {
	for request, codes := range map[string][]string{
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": {notice.H2C},
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n": {notice.H2C},
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n":    nil,
	} {
		l, observer := newNoticeLimiter()
		h := nethttp.Middleware(l, alice)(page)
		for range 100 {
			get(t, h, "/")
		}
		serve(h, httptest.NewRequest("PRI", "*", nil)) // whose ResponseWriter is no Hijacker
		server := httptest.NewServer(h)
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second)) // no test waits for ever
		_, _ = io.WriteString(conn, request)
		_, _ = conn.Read(make([]byte, 1))
		conn.Close()
		server.Close()
		observer.expect(t, request, codes...)
	}
	l, observer := newNoticeLimiter()
	three := core.Must(l.Rule("three", core.PerMinute(3)))
	server := httptest.NewUnstartedServer(nethttp.Middleware(three, alice)(page))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()
	client := http.Client{Transport: &http.Transport{Protocols: server.Config.Protocols}, Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	for i := range 5 {
		res, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if want := map[bool]int{true: 200, false: 429}[i < 3]; res.StatusCode != want || res.ProtoMajor != 2 {
			t.Errorf("request %d: got %d by %s, want %d by HTTP/2.0", i, res.StatusCode, res.Proto, want)
		}
	}
	observer.expect(t, "a server of HTTP/2")
}
