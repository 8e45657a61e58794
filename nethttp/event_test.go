package nethttp_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// observed returns a limiter, and the events of its observer.
func observed(s core.Store, policy core.Policy) (*core.Limiter, *[]core.Event) {
	events := new([]core.Event)
	return core.Must(core.New(core.Config{
		Name: "test", Store: s, Limits: []core.Limit{minute}, OnStoreError: policy,
		Observer: core.ObserverFunc(func(_ context.Context, e core.Event) { *events = append(*events, e) }),
	})), events
}

// TestLabels: around a ServeMux the label is the pattern by which it serves, also for
// refused requests, and never a path.
func TestLabels(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("GET /items/{id}", page)
	mux.Handle("/tree/{id}/", page)
	logged := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { mux.ServeHTTP(w, r) })
	own := nethttp.WithLabel(func(*http.Request) string { return "own" })
	for _, s := range []*fakeStore{admits(1, 0), refuses(time.Second)} {
		l, events := observed(s, nil)
		direct := nethttp.Middleware(l, alice)(mux)
		inside := http.NewServeMux()
		inside.Handle("/items/", direct)
		for _, c := range []struct {
			h            http.Handler
			method, path string
			want         string
		}{
			{direct, "GET", "/items/17", "GET /items/{id}"},
			{direct, "POST", "/items/17", ""},
			{direct, "GET", "/tree/17", ""},
			{direct, "GET", "/x/../items/17", ""},
			{direct, "GET", "/tree/17/branch", "/tree/{id}/"},
			{inside, "GET", "/items/17", "GET /items/{id}"},
			{nethttp.Middleware(l, alice)(logged), "GET", "/items/17", ""},
			{nethttp.Middleware(l, alice, own)(mux), "GET", "/items/17", "own"},
			{nethttp.Middleware(l, keyfuncs.Header("X"))(mux), "GET", "/items/17", "GET /items/{id}"},
		} {
			*events = nil
			c.h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(c.method, c.path, nil))
			if len(*events) != 1 || (*events)[0].Label != c.want {
				t.Errorf("%s %s: %+v, want the label %q", c.method, c.path, *events, c.want)
			}
		}
	}
}

// TestLabelOnlyIfObserved: no label is looked up for a limiter that only logs.
func TestLabelOnlyIfObserved(t *testing.T) {
	label := nethttp.WithLabel(func(*http.Request) string { t.Error("looked up"); return "" })
	get(t, nethttp.Middleware(limiter(admits(1, 0), nil), alice, label)(page), "/")
}

// TestSkipKeys: clients are exempt by their keys, and this is observed. What a client writes before
// the entry of the proxy exempts no client.
func TestSkipKeys(t *testing.T) {
	s := admits(7, 0)
	l, events := observed(s, nil)
	office := nethttp.SkipKeys(func(key string) bool { return strings.HasPrefix(key, "ip:10.") })
	h := nethttp.Middleware(l, keyfuncs.IP(keyfuncs.TrustHops(1)), office)(page)
	w := get(t, h, "/", "X-Forwarded-For", "10.1.2.3")
	if w.Code != 200 || w.Header().Get("X-RateLimit-Limit") != "" || s.calls.Load() != 0 {
		t.Errorf("got %d %v and %d calls of the store, want 200 and none", w.Code, w.Header(), s.calls.Load())
	}
	if e := (*events)[0]; e.Decision.Source != core.SourceSkipped || e.Key != "ip:10.1.2.3" || !e.Decision.Allowed {
		t.Errorf("got %+v, want the key ip:10.1.2.3 allowed and skipped", e)
	}
	w = get(t, h, "/", "X-Forwarded-For", "10.1.2.3, 203.0.113.5")
	if got := w.Header().Get("X-RateLimit-Remaining"); got != "7" || s.calls.Load() != 1 {
		t.Errorf("a forged entry: got %q remaining and %d calls, want 7 and 1", got, s.calls.Load())
	}
	all := nethttp.SkipKeys(func(string) bool { return true })
	if w = get(t, nethttp.Middleware(l, failing(keyfuncs.ErrNoKey), all)(page), "/"); w.Code != 400 {
		t.Errorf("no name: got %d, want 400", w.Code)
	}
}

// TestShadow: a guard in the shadow counts and is observed, refuses nothing and sets no fields, also
// where nothing can be decided, and can be switched.
func TestShadow(t *testing.T) {
	var on atomic.Bool
	on.Store(true)
	l, events := observed(memstore.New(), nil)
	l = core.Must(l.Rule("one", core.PerMinute(1)))
	h := nethttp.Middleware(l, alice, nethttp.ShadowWhile(on.Load))(page)
	for i, status := range []int{200, 429, 429} {
		w := get(t, h, "/")
		if w.Body.String() != "page" || len(w.Header()) != 1 { // Content-Type, from the recorder
			t.Errorf("request %d: got %d %v, want the page without fields", i, w.Code, w.Header())
		}
		if e := (*events)[i]; !e.Shadow || e.Decision.Allowed != (i == 0) || nethttp.Status(e.Decision) != status {
			t.Errorf("request %d: got %+v, want %d in the shadow", i, e, status)
		}
	}
	on.Store(false)
	if w := get(t, h, "/"); w.Code != 429 || (*events)[3].Shadow {
		t.Errorf("switched off: got %d and %+v, want 429", w.Code, (*events)[3])
	}

	down, outage := observed(&fakeStore{err: errors.New("down")}, core.FailClosed)
	broken := nethttp.WithLimits(func(*http.Request, string) ([]core.Limit, error) { return nil, errors.New("secret") })
	for name, c := range map[string]struct {
		h      http.Handler
		events *[]core.Event
	}{
		"no store":  {nethttp.Middleware(down, alice, nethttp.Shadow())(page), outage},
		"no limits": {nethttp.Middleware(l, alice, broken, nethttp.Shadow())(page), events},
		"no key":    {nethttp.Middleware(l, keyfuncs.Header("X-Tenant"), nethttp.Shadow())(page), events},
	} {
		*c.events = nil
		w := get(t, c.h, "/")
		if w.Body.String() != "page" || len(w.Header()) != 1 {
			t.Errorf("%s: got %d %v, want the page without fields", name, w.Code, w.Header())
		}
		if e := (*c.events)[0]; !e.Shadow || e.Decision.Allowed != (name == "no limits") || e.Decision.Err == nil {
			t.Errorf("%s: got %+v, want an error in the shadow", name, e)
		}
	}
}

// TestDecideAllWithoutKey: a request of which one limiter finds no key is counted by none.
func TestDecideAllWithoutKey(t *testing.T) {
	s := admits(1, 0)
	noKey := nethttp.DecideAll(nethttp.Pair{Limiter: limiter(s, nil), Key: keyfuncs.Header("X-Tenant")})
	if w := get(t, guarded(s, noKey), "/"); w.Code != 400 || s.calls.Load() != 0 {
		t.Errorf("got %d and %d calls, want 400 and none", w.Code, s.calls.Load())
	}
}
