package adaptertest

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// shadow checks that a guard in the shadow counts and is observed, refuses nothing and sets
// no fields, and that it can be switched.
func shadow(t *testing.T, adapter Adapter) {
	var on atomic.Bool
	on.Store(true)
	var events heard
	reached := 0
	l := watched(newStore(), &events, core.PerMinute(1))
	h := oneRoute(adapter, by(l, nethttp.ShadowWhile(on.Load))[0], &reached)
	for i := range 3 {
		expect(t, serve(t, h, "GET", "/work"), 200, "", "")
		if e := events.Event; !e.Shadow || e.Decision.Allowed != (i == 0) || e.Status != []int{200, 429, 429}[i] {
			t.Errorf("%d: %+v", i, e)
		}
	}
	on.Store(false)
	expect(t, serve(t, h, "GET", "/work"), 429, "1", "0")
	if events.Shadow || reached != 3 || events.times != 4 {
		t.Errorf("%d events, the last %+v; the handler was reached %d times", events.times, events.Event, reached)
	}

	reached = 0
	closed := watched(outage, &events, core.PerMinute(1)).WithPolicy(core.FailClosed)
	broken := nethttp.WithLimits(func(*http.Request) ([]core.Limit, error) { return nil, errors.New("secret") })
	for name, step := range map[string]Step{
		"no store":  by(closed, nethttp.Shadow())[0],
		"no limits": by(l, broken, nethttp.Shadow())[0],
		"no key":    {Limiter: l, Key: keyfuncs.Header("X-Tenant"), Options: []nethttp.Option{nethttp.Shadow()}},
	} {
		w := serve(t, oneRoute(adapter, step, &reached), "GET", "/work")
		expect(t, w, 200, "", "")
		passed := w.Header().Get("Retry-After") == ""
		if !events.Shadow || events.Decision.Allowed || events.Decision.Err == nil || !passed {
			t.Errorf("%s: %+v, %v", name, events.Event, w.Header())
		}
	}
	if reached != 3 {
		t.Errorf("the handler was reached %d times without a decision", reached)
	}
}

// skipKeys checks that clients are exempt by their keys, and that this is observed.
func skipKeys(t *testing.T, adapter Adapter) {
	var events heard
	reached := 0
	s := newStore()
	l := watched(s, &events, core.PerMinute(1))
	ip := keyfuncs.IP(keyfuncs.TrustHops(1))
	office := nethttp.SkipKeys(func(key string) bool { return strings.HasPrefix(key, "ip:10.") })
	h := oneRoute(adapter, Step{Limiter: l, Key: ip, Options: []nethttp.Option{office}}, &reached)
	for range 3 {
		expect(t, serve(t, h, "GET", "/work", "X-Forwarded-For", "10.1.2.3"), 200, "", "")
		if e := events.Event; e.Decision.Source != core.Skipped || e.Key != "ip:10.1.2.3" || !e.Decision.Allowed {
			t.Errorf("%+v", e)
		}
	}
	if n := s.asked(); n != 0 || events.times != 3 {
		t.Errorf("%d events; the store was asked %d times", events.times, n)
	}
	// What a client writes before the entry of the proxy exempts no client.
	expect(t, serve(t, h, "GET", "/work", "X-Forwarded-For", "10.1.2.3, 203.0.113.5"), 200, "1", "0")
	expect(t, serve(t, h, "GET", "/work", "X-Forwarded-For", "10.1.2.3, 203.0.113.5"), 429, "1", "0")
	if reached != 4 {
		t.Errorf("the handler was reached %d times", reached)
	}
}
