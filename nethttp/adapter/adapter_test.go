package adapter_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/internal/fakeclock"
	"github.com/sashlimit/sash/nethttp"
	"github.com/sashlimit/sash/nethttp/adapter"
)

// call is a request in a framework.
type call struct {
	w    http.ResponseWriter
	r    *http.Request
	sent func(status int) // to be called when an error is answered
}

var framework = adapter.Framework[*call]{
	Exchange:   func(c *call) (http.ResponseWriter, *http.Request, string) { return c.w, c.r, "" },
	SetRequest: func(c *call, r *http.Request) { c.r = r },
	SetWriter:  func(c *call, w http.ResponseWriter) { c.w = w },
}

func newCall() *call {
	return &call{w: httptest.NewRecorder(), r: httptest.NewRequest("GET", "/", nil)}
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
		framework adapter.Framework[*call]
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
		{framework, l, one, adapter.WithRefusal[*call](nil), "WithRefusal(nil) for *adapter_test.call"},
		{framework, l, one, adapter.Skip[*call](nil), "Skip(nil) for *adapter_test.call"},
		{framework, l, one, adapter.Skip(func(int) bool { return true }), "Skip for int works"},
	} {
		_, err := adapter.New(c.framework, c.limiter, c.key, c.opt)
		if err == nil || !strings.HasPrefix(err.Error(), "sash: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error with %q", err, c.want)
		}
	}
	const want = "Skip for *adapter_test.call works in the Middleware of that framework alone"
	_, err := nethttp.New(l, func(*http.Request) (string, error) { return "k", nil },
		adapter.Skip(func(*call) bool { return true }))
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an error with %q", err, want)
	}
}

// TestContextOptions: functions of the framework's context skip, cost, label and choose a limiter, without an
// allocation. Each of several skips is enough.
func TestContextOptions(t *testing.T) {
	var events []core.Event
	own := newLimiter(nil)
	other := newLimiter(core.ObserverFunc(func(_ context.Context, e core.Event) { events = append(events, e) }))
	skip := func(path string) nethttp.Option {
		return adapter.Skip(func(c *call) bool { return c.r.URL.Path == path })
	}
	opts := []nethttp.Option{
		skip("/a"), skip("/b"),
		adapter.WithCost(func(c *call) int { return len(c.r.URL.Path) }),
		adapter.WithLabel(func(c *call) string { return c.r.Method }),
		adapter.WithLimiter(func(c *call, key string) (*core.Limiter, error) {
			if c.r.URL.Path == "/other" && key == "user:one" {
				return other, nil
			}
			return nil, nil
		}),
	}
	serve := core.Must(adapter.New(framework, own, one, opts...))
	c, next := newCall(), func(*call) error { return nil }
	for _, target := range []string{"/a", "/b", "/cd", "/other"} {
		c.r.URL.Path = target
		_ = serve(c, next)
	}
	if left := own.AllowN(t.Context(), "user:one", 0).Remaining; left != 997 {
		t.Errorf("got %d left, want 997", left)
	}
	if len(events) != 1 || events[0].Label != "GET" || events[0].Cost != int64(len("/other")) {
		t.Errorf("got the events %+v of the other limiter, want one with the label GET and a cost of 6", events)
	}
	c.r.URL.Path = "/own"
	with := testing.AllocsPerRun(100, func() { _ = serve(c, next) })
	serve = core.Must(adapter.New(framework, own, one))
	if without := testing.AllocsPerRun(100, func() { _ = serve(c, next) }); with > without {
		t.Errorf("got %v allocations with the options and %v without, want as many", with, without)
	}
}

// TestErrors: CountWhen is asked about the answer to an error of a handler, also if the request's context has ended. It
// is not, and the request stays counted, where the framework does not tell the status, or the client has left and the
// error says so.
func TestErrors(t *testing.T) {
	answers, sorry := framework, errors.New("sorry")
	answers.BeforeSend = func(c *call, then func(status int)) { c.sent = then }
	for _, c := range []struct {
		name         string
		framework    adapter.Framework[*call]
		ends, leaves bool // the context, while the handler runs
		err          error
		asked        []int
	}{
		{"an error", answers, false, false, sorry, []int{401}},
		{"no status", framework, false, false, sorry, nil},
		{"a deadline", answers, true, false, context.DeadlineExceeded, []int{401}},
		{"the client has left", answers, true, true, context.Canceled, nil},
		{"the client has left, and another error", answers, true, true, sorry, []int{401}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var asked []int
			l := newLimiter(core.Silent)
			none := nethttp.CountWhen(func(_ *http.Request, s int) bool { asked = append(asked, s); return false })
			serve := core.Must(adapter.New(c.framework, l, one, none))
			ctx, leave := context.WithTimeout(t.Context(), time.Second)
			defer leave()
			request := newCall()
			request.r = request.r.WithContext(ctx)
			got := serve(request, func(*call) error {
				if c.leaves {
					leave()
				}
				if c.ends {
					<-ctx.Done()
				}
				return c.err
			})
			if request.sent != nil {
				request.sent(401)
			}
			synctest.Wait()
			d := l.AllowN(t.Context(), "user:one", 0)
			if got != c.err || !slices.Equal(asked, c.asked) || d.Remaining != int64(999+len(c.asked)) {
				t.Errorf("%s: got %v, asked about %v, %d left, want %v", c.name, got, asked, d.Remaining, c.asked)
			}
		})
	}
}

// TestErrorsAtOnce: a request that finds the limit filled waits also for errors that are not yet answered, a second at
// most. What does not count comes back with the answer.
func TestErrorsAtOnce(t *testing.T) {
	for _, c := range []struct {
		name     string
		answered bool
		reached  int64
		took     time.Duration
	}{
		{"answered", true, 50, 400 * time.Millisecond},
		{"never answered", false, 5, 1010 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := fakeclock.Limiter(core.PerHour(5))
			failed := nethttp.CountWhen(func(_ *http.Request, status int) bool { return status == 401 })
			answers := framework
			answers.BeforeSend = func(c *call, then func(status int)) { c.sent = then }
			serve := core.Must(adapter.New(answers, l, one, failed))
			var reached atomic.Int64
			var group sync.WaitGroup
			start := time.Now()
			for range 50 {
				group.Go(func() {
					request := newCall()
					err := serve(request, func(*call) error {
						reached.Add(1)
						time.Sleep(30 * time.Millisecond)
						return errors.New("sorry")
					})
					time.Sleep(10 * time.Millisecond)
					if err != nil && c.answered {
						request.sent(500)
					}
				})
			}
			group.Wait()
			if took := time.Since(start); reached.Load() != c.reached || took != c.took {
				t.Errorf("%s: %d reached it in %v, want %d in %v", c.name, reached.Load(), took, c.reached, c.took)
			}
		})
	}
}

// TestLateHandler: a handler that returns after its deadline leaves the context alone, which the framework may have
// given to another request.
func TestLateHandler(t *testing.T) {
	all := nethttp.CountWhen(func(*http.Request, int) bool { return true })
	serve := core.Must(adapter.New(framework, newLimiter(core.Silent), one, all))
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		other := httptest.NewRecorder()
		c := newCall()
		c.r = c.r.WithContext(ctx)
		_ = serve(c, func(c *call) error {
			<-ctx.Done()
			c.w = other
			return nil
		})
		if c.w != other {
			t.Error("the ResponseWriter of another request was replaced")
		}
	})
}

// TestWriterIsPutBack: after the handler, and after the panic of a refusal, the context has its own ResponseWriter
// again.
func TestWriterIsPutBack(t *testing.T) {
	all := nethttp.CountWhen(func(*http.Request, int) bool { return true })
	dear := nethttp.WithCost(func(r *http.Request) int { return len(r.URL.Path) * 600 })
	refuse := adapter.WithRefusal(func(c *call, d core.Decision) error {
		c.w.WriteHeader(nethttp.Status(d))
		panic("the user's own")
	})
	serve := core.Must(adapter.New(framework, newLimiter(core.Silent), one, all, dear, refuse))
	for _, want := range []int{200, 429} {
		w := httptest.NewRecorder()
		c := newCall()
		c.w = w
		func() {
			defer func() { _ = recover() }()
			_ = serve(c, func(*call) error { return nil })
		}()
		if w.Code != want || c.w != w {
			t.Errorf("got %d and a %T, want %d and the %T from before", w.Code, c.w, want, w)
		}
	}
}
