package docs_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// newLogin serves five logins in 15 minutes to each address.
func newLogin(store core.Store) http.Handler {
	limiter := core.Must(core.New(core.Config{
		Name:         "login",
		Store:        store,
		Limits:       []core.Limit{core.Per(5, 15*time.Minute)},
		OnStoreError: core.FailClosed,
		Timeout:      10 * time.Second, // a busy machine is no outage
	}))
	welcome := func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "welcome") }
	return nethttp.Middleware(limiter, keyfuncs.RemoteIP)(http.HandlerFunc(welcome))
}

// login sends a login as if it came from an address, and returns the status and how long the client is to wait.
func login(h http.Handler, address string) (status int, retryAfter string) {
	r := httptest.NewRequest("POST", "/login", nil)
	r.RemoteAddr = address + ":52241"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Header().Get("Retry-After")
}

func TestSixthLogin(t *testing.T) {
	now := time.Now()
	h := newLogin(memstore.New(memstore.WithClock(func() time.Time { return now })))
	for i, c := range []struct {
		after      time.Duration
		address    string
		status     int
		retryAfter string
	}{
		{0, "198.51.100.7", 200, ""},
		{0, "198.51.100.7", 200, ""},
		{0, "198.51.100.7", 200, ""},
		{0, "198.51.100.7", 200, ""},
		{0, "198.51.100.7", 200, ""},
		{0, "198.51.100.7", 429, "900"},
		{0, "203.0.113.5", 200, ""},
		{15*time.Minute - time.Microsecond, "198.51.100.7", 429, "1"},
		{time.Microsecond, "198.51.100.7", 200, ""},
	} {
		now = now.Add(c.after)
		if status, retryAfter := login(h, c.address); status != c.status || retryAfter != c.retryAfter {
			t.Errorf("login %d: %d, Retry-After %q, want %d, %q", i+1, status, retryAfter, c.status, c.retryAfter)
		}
	}
}

func TestWorkerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerMinute(1)}}))
		begin := time.Now()
		for range 3 {
			if _, err := limiter.Wait(t.Context(), "mail"); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin).Round(time.Second); took != 2*time.Minute { // Wait may come a little late
			t.Errorf("three took %v, want 2m", took)
		}
	})
}

func TestLoginAnswers(t *testing.T) {
	for want, answer := range map[int]core.Decision{
		200: {Allowed: true, Remaining: 3},
		429: {RetryAfter: 90 * time.Second},
		503: {Err: core.ErrTimeout},
	} {
		if status, _ := login(newLogin(storetest.Fixed(answer)), "198.51.100.7"); status != want {
			t.Errorf("%+v: %d, want %d", answer, status, want)
		}
	}
}

func TestStoreGoesAndComes(t *testing.T) {
	away := false
	h := newLogin(storetest.Wrap(memstore.New(), func(ctx context.Context, call storetest.Call) (core.Decision, error) {
		if away {
			return core.Decision{}, errors.New("connection refused")
		}
		return call.Next(ctx)
	}))
	for i, want := range []int{200, 200, 503, 503, 200, 200, 200, 429} {
		away = i == 2 || i == 3
		if status, _ := login(h, "198.51.100.7"); status != want {
			t.Errorf("login %d: %d, want %d", i+1, status, want)
		}
	}
}

func TestKey(t *testing.T) {
	key := keyfuncs.IP(keyfuncs.TrustProxies(netip.MustParsePrefix("10.0.0.0/8")))
	for _, c := range []struct{ peer, forwarded, want string }{
		{"203.0.113.5:52241", "192.0.2.1", "ip:203.0.113.5"},            // no proxy of ours
		{"10.0.0.1:4711", "192.0.2.1, 198.51.100.7", "ip:198.51.100.7"}, // 192.0.2.1 is forged
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.peer
		r.Header.Set("X-Forwarded-For", c.forwarded)
		if got, err := key(r); got != c.want || err != nil {
			t.Errorf("%s, %q: %q, %v, want %q", c.peer, c.forwarded, got, err, c.want)
		}
	}
}

func TestLoginsOnTwoServers(t *testing.T) {
	redis := miniredis.RunT(t)
	now := time.Now()
	redis.SetTime(now)
	var servers []http.Handler
	for range 2 {
		store, err := redisstore.Open("redis://"+redis.Addr(), redisstore.WithoutDenyCache())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		servers = append(servers, newLogin(store))
	}
	for i, want := range []int{200, 200, 200, 200, 200, 429, 429, 200, 200} {
		if i == 7 {
			redis.SetTime(now.Add(15 * time.Minute)) // what Redis tells of the time
			redis.FastForward(15 * time.Minute)      // when its keys expire
		}
		if status, _ := login(servers[i%2], "198.51.100.7"); status != want {
			t.Errorf("login %d: %d, want %d", i+1, status, want)
		}
	}
}
