package nethttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/nethttp"
)

// fakeStore answers every request the same, and counts its calls.
type fakeStore struct {
	decision core.Decision
	err      error
	calls    atomic.Int64
}

func (s *fakeStore) Bind(rule core.Binding) (core.Ledger, error) {
	return storetest.Wrap(storetest.Fixed(core.Decision{Allowed: true}), s.call).Bind(rule)
}

func (s *fakeStore) call(_ context.Context, call storetest.Call) (core.Decision, error) {
	if call.Verb != "Take" {
		return core.Decision{}, nil
	}
	s.calls.Add(1)
	return s.decision, s.err
}

var (
	minute = core.PerMinute(100)
	at     = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

func init() { minute.Name = "1m0s" }

func admits(remaining int64, reset time.Duration) *fakeStore {
	return &fakeStore{decision: core.Decision{
		Allowed: true, Limit: minute, Remaining: remaining, ResetAfter: reset, At: at,
	}}
}

func refuses(retry time.Duration) *fakeStore {
	return &fakeStore{decision: core.Decision{Limit: minute, ResetAfter: retry, RetryAfter: retry, At: at}}
}

func limiter(s core.Store, policy core.Policy) *core.Limiter {
	return core.Must(core.New(core.Config{Name: "test", Store: s, Limits: []core.Limit{minute}, OnStoreError: policy}))
}

func alice(*http.Request) (string, error) { return "user:alice", nil }

// page is a handler that says that it was reached.
var page = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("page")) })

func guarded(s core.Store, opts ...nethttp.Option) http.Handler {
	return nethttp.Middleware(limiter(s, core.FailOpen), alice, opts...)(page)
}

func get(t *testing.T, h http.Handler, target string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	return serve(h, httptest.NewRequest(http.MethodGet, target, nil), header...)
}

func serve(h http.Handler, r *http.Request, header ...string) *httptest.ResponseRecorder {
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
