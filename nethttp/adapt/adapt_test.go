package adapt_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/nethttp"
	"github.com/sashlimit/sash/nethttp/adapt"
)

// call is a request in a framework.
type call struct {
	w http.ResponseWriter
	r *http.Request
}

var framework = adapt.Framework[*call]{
	Exchange:   func(c *call) (http.ResponseWriter, *http.Request, string) { return c.w, c.r, "" },
	SetRequest: func(c *call, r *http.Request) { c.r = r },
	SetWriter:  func(c *call, w http.ResponseWriter) { c.w = w },
}

func one(*call) (string, error) { return "user:one", nil }

func newLimiter(o core.Observer) *core.Limiter {
	return core.Must(core.New(core.Config{
		Name: "test", Store: memstore.New(), Limits: []core.Limit{core.PerHour(1000)}, Observer: o,
	}))
}

// TestWrongArguments: an error says what is wrong.
func TestWrongArguments(t *testing.T) {
	l := newLimiter(nil)
	incomplete := framework
	incomplete.SetWriter = nil
	for _, c := range []struct {
		framework adapt.Framework[*call]
		limiter   *core.Limiter
		key       func(*call) (string, error)
		opt       nethttp.Option
		want      string
	}{
		{incomplete, l, one, nethttp.Shadow(), "lacks Exchange, SetRequest or SetWriter"},
		{framework, nil, one, nethttp.Shadow(), "the limiter is nil"},
		{framework, l, nil, nethttp.Shadow(), "the key function is nil"},
		{framework, l, framework.Key(nil), nethttp.Shadow(), "the key function is nil"},
		{framework, l, one, nil, "an option is nil"},
		{framework, l, one, adapt.WithRefusal[*call](nil), "WithRefusal(nil) for *adapt_test.call"},
		{framework, l, one, adapt.WithSkipper[*call](nil), "WithSkipper(nil) for *adapt_test.call"},
		{framework, l, one, adapt.WithSkipper(func(int) bool { return true }), "WithSkipper for int works"},
	} {
		_, err := adapt.New(c.framework, c.limiter, c.key, c.opt)
		if err == nil || !strings.HasPrefix(err.Error(), "sash: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error with %q", err, c.want)
		}
	}
	const want = "WithSkipper for *adapt_test.call works in the Middleware of that framework alone"
	_, err := nethttp.New(l, func(*http.Request) (string, error) { return "k", nil },
		adapt.WithSkipper(func(*call) bool { return true }))
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an error with %q", err, want)
	}
}

// noticed is an observer that counts notices.
type noticed struct{ count *int }

func (noticed) Observe(context.Context, core.Event)   {}
func (n noticed) Notice(context.Context, core.Notice) { *n.count++ }

// TestCountedOnce: a ResponseWriter that is used again does not look like a request that is counted twice.
func TestCountedOnce(t *testing.T) {
	got := 0
	serve := core.Must(adapt.New(framework, newLimiter(noticed{&got}), one))
	c := &call{httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)}
	for range 300 {
		if err := serve(c, func(*call) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if got != 0 {
		t.Errorf("got %d notices, want 0", got)
	}
}

// TestErrorWithoutFail: an error of a handler is returned, also by a framework that cannot answer it before.
func TestErrorWithoutFail(t *testing.T) {
	all := nethttp.CountWhen(func(*http.Request, int) bool { return true })
	serve := core.Must(adapt.New(framework, newLimiter(core.Silent), one, all))
	want := errors.New("sorry")
	got := serve(&call{httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)}, func(*call) error { return want })
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestWriterIsPutBack: after the handler and after a refusal the context has its own ResponseWriter again.
func TestWriterIsPutBack(t *testing.T) {
	all := nethttp.CountWhen(func(*http.Request, int) bool { return true })
	dear := nethttp.WithCost(func(r *http.Request) int { return len(r.URL.Path) * 600 })
	refuse := adapt.WithRefusal(func(c *call, d core.Decision) error {
		c.w.WriteHeader(nethttp.Status(d))
		return nil
	})
	serve := core.Must(adapt.New(framework, newLimiter(core.Silent), one, all, dear, refuse))
	for _, want := range []int{200, 429} {
		w := httptest.NewRecorder()
		c := &call{w, httptest.NewRequest("GET", "/", nil)}
		_ = serve(c, func(*call) error { return nil })
		if w.Code != want || c.w != w {
			t.Errorf("got %d and a %T, want %d and the %T from before", w.Code, c.w, want, w)
		}
	}
}
