package nethttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// asking serves page behind a guard by API key. It limits failed keys by the limiter
// failures, and counts what verify is asked.
func asking(
	t *testing.T, failures *core.Limiter, opts ...nethttp.Option,
) (send func(header ...string) string, asked *int) {
	t.Helper()
	asked = new(int)
	key := keyfuncs.First(keyfuncs.APIKey("X-API-Key", func(_ context.Context, presented string) (string, error) {
		*asked++
		if presented == "broken" {
			return "", errors.New("the database of presented keys is down")
		}
		return map[string]string{"right": "7", "other": "8"}[presented], nil
	}, keyfuncs.LimitFailures(failures, keyfuncs.RemoteIP)), keyfuncs.RemoteIP)
	perClient := core.Must(core.New(core.Config{Store: stopped(), Limits: []core.Limit{core.PerMinute(100)}}))
	server := httptest.NewServer(nethttp.Middleware(perClient, key, opts...)(page))
	t.Cleanup(server.Close)
	return func(header ...string) string {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Add(header[i], header[i+1])
		}
		res, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		res.Header.Del("Date")
		res.Header.Del("Content-Length")
		return res.Status + " | " + flat(res.Header)
	}, asked
}

// stopped returns a store with a clock that stands still.
func stopped() core.Store {
	return memstore.New(memstore.WithClock(func() time.Time { return at }))
}

func failureLimiter(n int64) *core.Limiter {
	return core.Must(core.New(core.Config{Store: stopped(), Limits: []core.Limit{core.PerMinute(n).Named("failures")}}))
}

// An address that has spent its failures gets one answer for every key, which
// is the refusal of the limiter of failures.
func TestGuessingKeys(t *testing.T) {
	send, asked := asking(t, failureLimiter(3))
	const refused = "429 Too Many Requests | Cache-Control: no-store | Content-Type: application/problem+json | " +
		"Retry-After: 60 | X-Ratelimit-Limit: 3 | X-Ratelimit-Remaining: 0 | X-Ratelimit-Reset: 60"
	for i := range 3 {
		if got := send("X-API-Key", fmt.Sprint("guess", i)); !strings.HasPrefix(got, "200 OK") {
			t.Errorf("guess %d: %s", i, got)
		}
	}
	for _, header := range [][]string{
		{"X-API-Key", "guess"}, {"X-API-Key", "right"}, {"Authorization", "Bearer right"}, {"X-API-Key", "broken"},
	} {
		if got := send(header...); got != refused {
			t.Errorf("%q\n got %s\nwant %s", header, got, refused)
		}
	}
	if got := send(); !strings.HasPrefix(got, "200 OK") {
		t.Errorf("without a key: %s", got)
	}
	if *asked != 3 {
		t.Errorf("verify was asked %d times, want 3", *asked)
	}
}

func TestRefusedKeys(t *testing.T) {
	send, asked := asking(t, failureLimiter(3))
	for _, c := range []struct {
		want   string
		header []string
	}{
		{"400 Bad Request", []string{"X-API-Key", "right", "X-API-Key", "right"}},
		{"400 Bad Request", []string{"X-API-Key", "right", "Authorization", "Bearer other"}},
		{"400 Bad Request", []string{"X-API-Key", strings.Repeat("k", 10_000)}},
		{"400 Bad Request", []string{"X-API-Key", "right, other"}},
		{"200 OK", []string{"X-API-Key", "junk", "Authorization", "Bearer right"}},
		{"500 Internal Server Error", []string{"X-API-Key", "broken"}},
		{"500 Internal Server Error", []string{"X-API-Key", "broken"}}, // which is no failure
		{"200 OK", []string{"X-API-Key", "right"}},
	} {
		if got := send(c.header...); !strings.HasPrefix(got, c.want) {
			t.Errorf("%.100q: %s, want %s", c.header, got, c.want)
		}
	}
	if *asked != 8 {
		t.Errorf("verify was asked %d times, want 8", *asked)
	}
}

func TestGuessingKeysWithoutStore(t *testing.T) {
	down := &fakeStore{err: errors.New("dial tcp: refused")}
	fixed := nethttp.WithRetryAfter(1200 * time.Millisecond) // of 1.2 to 2.4 s, one whole number
	send, asked := asking(t, limiter(down, core.FailClosed), fixed)
	const want = "503 Service Unavailable | Cache-Control: no-store | Content-Type: application/problem+json | " +
		"Retry-After: 2"
	if got := send("X-API-Key", "right"); got != want || *asked != 0 {
		t.Errorf("fail closed: %s, want %s; verify was asked %d times", got, want, *asked)
	}
	send, _ = asking(t, limiter(down, core.FailOpen))
	for _, key := range []string{"right", "guess", "right"} {
		if got := send("X-API-Key", key); !strings.HasPrefix(got, "200 OK") {
			t.Errorf("fail open, %s: %s", key, got)
		}
	}
}

func TestGuessingKeysIETF(t *testing.T) {
	send, _ := asking(t, failureLimiter(1), nethttp.WithHeaders(headers.IETF))
	send("X-API-Key", "guess")
	const want = `Ratelimit: "failures";r=0;t=60 | Ratelimit-Policy: "failures";q=1;w=60`
	if got := send("X-API-Key", "right"); !strings.Contains(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// A key function's own refusal never admits, and wrapped errors are found.
func TestRefusedError(t *testing.T) {
	over := &keyfuncs.RefusedError{Decision: core.Decision{Limit: minute, RetryAfter: time.Second}}
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"wrapped": {fmt.Errorf("lookup: %w", over), 429},
		"an admission": {&keyfuncs.RefusedError{Decision: core.Decision{Allowed: true, Limit: minute, Remaining: 5}},
			429},
		"empty":           {&keyfuncs.RefusedError{}, 429},
		"the client left": {&keyfuncs.RefusedError{Decision: core.Decision{Err: context.Canceled}}, 503},
		"no store":        {&keyfuncs.RefusedError{Decision: core.Decision{Err: core.ErrStoreFull}}, 503},
		"bad request":     {fmt.Errorf("cookie: %w", keyfuncs.ErrBadRequest), 400},
	} {
		store := admits(1, 0)
		w := get(t, nethttp.Middleware(limiter(store, nil), failing(c.err))(page), "/")
		if w.Code != c.want || store.calls.Load() != 0 {
			t.Errorf("%s: %d, want %d; the guard's store was asked %d times", name, w.Code, c.want, store.calls.Load())
		}
	}
}
