package httpclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/extra/httpclient"
)

// server is a RoundTripper that answers by a function, and counts what it is sent.
type server struct {
	answer func(r *http.Request) *http.Response // nil: 200
	sent   atomic.Int64
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.sent.Add(1)
	if r.Body != nil {
		defer r.Body.Close()
	}
	if s.answer == nil {
		return answer(200), nil
	}
	return s.answer(r), nil
}

// answer returns a response with the given fields.
func answer(status int, fields ...string) *http.Response {
	w := httptest.NewRecorder()
	for i := 0; i < len(fields); i += 2 {
		w.Header().Add(fields[i], fields[i+1])
	}
	w.WriteHeader(status)
	return w.Result()
}

var admits = core.Decision{Allowed: true, Remaining: 5}

// limiter returns a limiter whose store always answers d.
func limiter(d core.Decision, policy core.Policy) *core.Limiter {
	return core.Must(core.New(core.Config{
		Name: "test", Store: storetest.Fixed(d), Limits: []core.Limit{core.PerMinute(100)}, OnStoreError: policy,
	}))
}

// sending returns a RoundTripper to s with limits in memory.
func sending(s http.RoundTripper, limit core.Limit, opts ...httpclient.Option) http.RoundTripper {
	l := core.Must(core.New(core.Config{
		Store: memstore.New(), Limits: []core.Limit{limit}, OnStoreError: core.FailClosed, Observer: core.Silent,
	}))
	return core.Must(httpclient.NewTransport(l, httpclient.ByHost, s, opts...))
}

// body is a request's body that knows whether it is closed.
type body struct {
	io.Reader
	closed atomic.Bool
}

func (b *body) Close() error { b.closed.Store(true); return nil }

// send sends a request with a body to the host.
func send(ctx context.Context, t *testing.T, transport http.RoundTripper, host string) error {
	t.Helper()
	b := &body{Reader: strings.NewReader("body")}
	r := core.Must(http.NewRequestWithContext(ctx, http.MethodPost, "https://"+host+"/path", b))
	before := fmt.Sprintf("%p %+v", r.Body, *r)
	response, err := transport.RoundTrip(r)
	if after := fmt.Sprintf("%p %+v", r.Body, *r); after != before {
		t.Errorf("the request was changed:\n%s\n%s", before, after)
	}
	if !b.closed.Load() {
		t.Errorf("the body is open after %v", err)
	}
	if (response == nil) != (err != nil) {
		t.Errorf("response %v, error %v", response, err)
	}
	return err
}

// refusedWith fails the test unless err is a Error that matches all wants.
func refusedWith(t *testing.T, err error, retry time.Duration, wants ...error) {
	t.Helper()
	var refused *httpclient.Error
	if !errors.As(err, &refused) || refused.Decision.Allowed || refused.Decision.RetryAfter != retry {
		t.Fatalf("%v, %+v, want a refusal for %v", err, refused, retry)
	}
	for _, want := range wants {
		if !errors.Is(err, want) {
			t.Errorf("%v is no %v", err, want)
		}
	}
	if n := strings.Count(err.Error(), "sash:"); n != 1 {
		t.Errorf("%v: sash is there %d times", err, n)
	}
}

// TestTransportWaits: requests of a host wait for each other, and those of another do not.
func TestTransportWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		transport := sending(s, core.PerMinute(5))
		start := time.Now()
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				if err := send(context.Background(), t, transport, "a.example"); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := s.sent.Load(); n != 5 {
			t.Errorf("%d were sent at once, want 5", n)
		}
		if err := send(context.Background(), t, transport, "b.example"); err != nil || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := send(ctx, t, transport, "a.example")
		refusedWith(t, err, time.Minute, core.ErrTooLate, context.DeadlineExceeded)
		ctx, cancel = context.WithCancel(context.Background())
		time.AfterFunc(time.Second, cancel)
		refusedWith(t, send(ctx, t, transport, "a.example"), 0, context.Canceled)
		if took := time.Since(start); took != time.Second {
			t.Errorf("it took %v", took)
		}
		group.Wait()
		if took := time.Since(start); took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestTransportNoWait: with NoWait a request fails where it would have to wait.
func TestTransportNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		transport := sending(s, core.PerMinute(1), httpclient.NoWait())
		if err := send(context.Background(), t, transport, "a.example"); err != nil {
			t.Error(err)
		}
		refusedWith(t, send(context.Background(), t, transport, "a.example"), time.Minute, httpclient.ErrLimited)
		s.answer = func(*http.Request) *http.Response { return answer(429, "Retry-After", "7") }
		if err := send(context.Background(), t, transport, "b.example"); err != nil {
			t.Error(err)
		}
		refusedWith(t, send(context.Background(), t, transport, "b.example"), 7*time.Second, httpclient.ErrPaused)
	})
}

// TestTransportHeeds: after an answer that asks for a pause, by TestPauseOfStatus, the requests of the key wait, for at
// most the longest pause, and those of other keys do not.
func TestTransportHeeds(t *testing.T) {
	for _, c := range []struct {
		status       int
		field, value string
		want         time.Duration
		opts         []httpclient.Option
	}{
		{429, "Retry-After", "30", 30 * time.Second, nil},
		{429, "RateLimit-Reset", "946684840", 40 * time.Second, nil}, // a bubble begins at 946684800
		{200, "Retry-After", "30", 0, nil},
		{429, "Retry-After", "999999999999", time.Hour, nil},
		{429, "Retry-After", "30", 9 * time.Second, []httpclient.Option{httpclient.MaxPause(9 * time.Second)}},
		{429, "Retry-After", "30", 0, []httpclient.Option{httpclient.MaxPause(0)}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{answer: func(*http.Request) *http.Response { return answer(c.status, c.field, c.value) }}
			transport := sending(s, core.PerMinute(1000), c.opts...)
			start := time.Now()
			if err := send(context.Background(), t, transport, "a.example"); err != nil {
				t.Error(err)
			}
			s.answer = nil
			if err := send(context.Background(), t, transport, "b.example"); err != nil || time.Since(start) != 0 {
				t.Errorf("another key: %v after %v", err, time.Since(start))
			}
			if c.want > 0 {
				ctx, cancel := context.WithTimeout(context.Background(), c.want)
				defer cancel()
				refusedWith(t, send(ctx, t, transport, "a.example"), c.want, httpclient.ErrPaused, core.ErrTooLate)
				ctx, cancel = context.WithCancel(context.Background())
				cancel()
				refusedWith(t, send(ctx, t, transport, "a.example"), c.want, context.Canceled)
			}
			if err := send(context.Background(), t, transport, "a.example"); err != nil || time.Since(start) != c.want {
				t.Errorf("%+v: %v after %v", c, err, time.Since(start))
			}
		})
	}
}

// TestTransportPauseWhileWaiting: a pause that begins while requests wait for the limiter
// holds for them too, no window of what is sent exceeds the limit after it, and a shorter
// pause does not end a longer one.
func TestTransportPauseWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		var times []time.Duration
		s := &server{answer: func(*http.Request) *http.Response {
			mu.Lock()
			times = append(times, time.Since(start).Truncate(time.Second))
			number := len(times)
			mu.Unlock()
			time.Sleep(time.Millisecond) // the first four are sent by now
			switch number {
			case 3:
				return answer(429, "Retry-After", "30")
			case 4:
				return answer(429, "Retry-After", "2")
			}
			return answer(200)
		}}
		transport := sending(s, core.Per(4, 10*time.Second))
		var group sync.WaitGroup
		for range 12 {
			group.Go(func() { _ = send(context.Background(), t, transport, "a.example") })
		}
		group.Wait()
		for i, at := range times {
			if want := []time.Duration{0, 30 * time.Second, 40 * time.Second}[i/4]; at != want {
				t.Errorf("the requests were sent at %v", times)
				break
			}
		}
	})
}

// TestTransportKeys: a key function that fails, names nothing or panics sends nothing.
func TestTransportKeys(t *testing.T) {
	failed := errors.New("no tenant")
	for what, c := range map[string]struct {
		key  func(*http.Request) (string, error)
		want error
	}{
		"fails": {func(*http.Request) (string, error) { return "", failed }, failed},
		"empty": {func(*http.Request) (string, error) { return "", nil }, core.ErrInvalid},
	} {
		s := &server{}
		transport := core.Must(httpclient.NewTransport(limiter(admits, core.FailOpen), c.key, s))
		refusedWith(t, send(context.Background(), t, transport, "a.example"), 0, c.want)
		if n := s.sent.Load(); n != 0 {
			t.Errorf("%s: %d requests were sent", what, n)
		}
	}
	b := &body{Reader: strings.NewReader("body")}
	panics := core.Must(httpclient.NewTransport(limiter(admits, core.FailOpen),
		func(*http.Request) (string, error) { panic("key") }, &server{}))
	func() {
		defer func() { _ = recover() }()
		_, _ = panics.RoundTrip(httptest.NewRequest(http.MethodPost, "https://a.example/", b))
	}()
	if !b.closed.Load() {
		t.Error("the body is open after a panic")
	}
}

// TestTransportArguments: what cannot work is an error of construction.
func TestTransportArguments(t *testing.T) {
	l := limiter(admits, core.FailOpen)
	var nilTransport *http.Transport
	byHost := httpclient.ByHost
	maxPause := func(d time.Duration) error {
		return second(httpclient.NewTransport(l, byHost, &server{}, httpclient.MaxPause(d)))
	}
	for want, err := range map[string]error{
		"limiter is nil":       second(httpclient.NewTransport(nil, byHost, &server{})),
		"zero Limiter":         second(httpclient.NewTransport(new(core.Limiter), byHost, &server{})),
		"key function":         second(httpclient.NewTransport(l, nil, &server{})),
		"the base":             second(httpclient.NewTransport(l, byHost, nil)),
		"base of NewTransport": second(httpclient.NewTransport(l, byHost, nilTransport)),
		"option is nil":        second(httpclient.NewTransport(l, byHost, &server{}, nil)),
		"MaxPause(-1ns)":       maxPause(-1),
		"MaxPause(60ns)":       maxPause(60),
		"give 0 or from 1s":    maxPause(time.Second - 1),
		"MaxPause(8784h0m0":    maxPause(core.MaxWindow + 1),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "sash: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, d := range []time.Duration{0, time.Second, core.MaxWindow} {
		if err := maxPause(d); err != nil {
			t.Error(err)
		}
	}
}

func second(_ http.RoundTripper, err error) error { return err }

// TestByHost: one server has one name, however its URL is written.
func TestByHost(t *testing.T) {
	for want, urls := range map[string][]string{
		"host:api.example.com": {
			"https://api.example.com", "https://API.Example.com/x", "https://api.example.com.:443/",
			"https://api.example.com:/", "https://api.example.com:0443", "http://user@api.example.com:80/",
		},
		"host:api.example.com:80": {"https://api.example.com:80/", "https://api.example.com.:00080/"},
		"host:api.example.com:1":  {"https://user@api.example.com:1"},
		"host:[2001:db8::1]": {
			"http://[2001:DB8::1]/", "http://[2001:db8:0:0:0:0:0:1]", "http://[2001:0db8::0001]:080",
		},
		"host:[2001:db8::1]:8080": {"http://[2001:db8::1]:8080/"},
		"host:[fe80::1%eth0]":     {"http://[fe80::1%25eth0]", "http://[FE80:0::1%25eth0]"},
		"host:[fe80::1%ETH0]":     {"http://[fe80::1%25ETH0]"},
		"host:[fe80::1%eth0]:8080": {
			"http://[fe80::1%25eth0]:8080/", "https://user:pw@[FE80::0:1%25eth%30]:08080",
		},
		"host:[fe80::1%en 1]": {"https://[fe80::1%25en%201]:443"},
		"host:127.0.0.1":      {"http://127.0.0.1", "http://[::ffff:127.0.0.1]", "http://[::FFFF:7f00:1]:80"},
		"":                    {"/path", "https:///path", "https://:443/", "https://./"},
	} {
		for _, url := range urls {
			r := core.Must(http.NewRequest(http.MethodGet, url, nil))
			if got, err := httpclient.ByHost(r); got != want || (err != nil) != (want == "") {
				t.Errorf("%s: got %q, %v, want %q", url, got, err, want)
			}
		}
	}
	for _, u := range []*url.URL{nil, {}} {
		if got, err := httpclient.ByHost(&http.Request{URL: u}); err == nil {
			t.Errorf("%v: got %q, want an error", u, got)
		}
	}
}

// idleServer is a server that keeps connections.
type idleServer struct {
	server
	idle int
}

func (s *idleServer) CloseIdleConnections() { s.idle++ }

// TestTransportIdle: CloseIdleConnections of an http.Client reaches the base, through two Transports too, and a base
// need not have it.
func TestTransportIdle(t *testing.T) {
	s := &idleServer{}
	for _, base := range []http.RoundTripper{s, &server{}} {
		client := &http.Client{Transport: sending(sending(base, core.PerMinute(9)), core.PerMinute(9))}
		client.CloseIdleConnections()
	}
	if s.idle != 1 {
		t.Errorf("the idle connections were closed %d times, want once", s.idle)
	}
}

// TestErrorTimeout: an http.Client says of a request that was not sent that it timed out where its deadline is why.
func TestErrorTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		within := func(d time.Duration) context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			t.Cleanup(cancel)
			return ctx
		}
		caused, cancel := context.WithTimeoutCause(t.Context(), 0, errors.New("no time"))
		defer cancel()
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		full := core.Decision{RetryAfter: time.Minute}
		down := core.Decision{Err: core.ErrTimeout}
		waits, refuses := []httpclient.Option{}, []httpclient.Option{httpclient.NoWait()}
		for what, c := range map[string]struct {
			ctx     context.Context
			timeout time.Duration // of the client
			answer  core.Decision
			opts    []httpclient.Option
			want    bool
		}{
			"the turn comes too late":              {within(time.Second), 0, full, waits, true},
			"too late for the client":              {t.Context(), time.Second, full, waits, true},
			"the deadline is over":                 {within(0), 0, full, waits, true},
			"the deadline is over, without a wait": {within(0), 0, full, refuses, true},
			"a deadline with a cause":              {caused, 0, full, waits, true},
			"the store is down until then":         {within(time.Second), 0, down, waits, true},
			"the store is down":                    {within(time.Second), 0, down, refuses, false},
			"limited":                              {within(time.Second), 0, full, refuses, false},
			"canceled":                             {canceled, 0, full, waits, false},
		} {
			l := limiter(c.answer, core.FailClosed)
			transport := core.Must(httpclient.NewTransport(l, httpclient.ByHost, &server{}, c.opts...))
			client := &http.Client{Transport: transport, Timeout: c.timeout}
			_, err := client.Do(core.Must(http.NewRequestWithContext(c.ctx, http.MethodGet, "https://a.example", nil)))
			var failed *url.Error
			if !errors.As(err, &failed) || !errors.As(err, new(*httpclient.Error)) || failed.Timeout() != c.want {
				t.Errorf("%s: %v: Timeout() is %v, want %v", what, err, failed.Timeout(), c.want)
			}
		}
	})
}
