// Package logintest shows how a program that limits is tested without sleeping: by a clock of the test's own, in a
// bubble of testing/synctest, by answers on demand, and on a Redis of the test's own. docs/testing.md tells when to
// take which.
package logintest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// newLogin serves five logins in 15 minutes to each address.
func newLogin(store core.Store, timeout time.Duration) http.Handler {
	limiter := core.Must(core.New(core.Config{
		Name:         "login",
		Store:        store,
		Limits:       []core.Limit{core.Per(5, 15*time.Minute)},
		OnStoreError: core.FailClosed,
		Timeout:      timeout, // 0 is the default of 100 ms
	}))
	welcome := func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "welcome") }
	return nethttp.Middleware(limiter, keyfuncs.RemoteIP)(http.HandlerFunc(welcome))
}

// login sends a request as if it came from an address.
func login(h http.Handler, address string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/login", nil)
	r.RemoteAddr = address + ":52241"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestSixthLogin(t *testing.T) {
	now := time.Now()
	h := newLogin(memstore.New(memstore.WithClock(func() time.Time { return now })), 0)
	for i := range 5 {
		if w := login(h, "198.51.100.7"); w.Code != 200 {
			t.Fatalf("login %d: %d, want 200", i+1, w.Code)
		}
	}
	w := login(h, "198.51.100.7")
	if w.Code != 429 || w.Header().Get("Retry-After") != "900" {
		t.Errorf("the sixth: %d, Retry-After %q, want 429, 900", w.Code, w.Header().Get("Retry-After"))
	}
	if w := login(h, "203.0.113.5"); w.Code != 200 {
		t.Errorf("another address: %d, want 200", w.Code)
	}

	now = now.Add(15*time.Minute - time.Microsecond)
	if w := login(h, "198.51.100.7"); w.Code != 429 {
		t.Errorf("too early: %d, want 429", w.Code)
	}
	now = now.Add(time.Microsecond)
	if w := login(h, "198.51.100.7"); w.Code != 200 {
		t.Errorf("15 minutes later: %d, want 200", w.Code)
	}
}

func TestSixthLoginInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newLogin(memstore.New(), 0)
		for range 5 {
			login(h, "198.51.100.7")
		}
		if w := login(h, "198.51.100.7"); w.Code != 429 {
			t.Errorf("the sixth: %d, want 429", w.Code)
		}
		time.Sleep(15 * time.Minute)
		if w := login(h, "198.51.100.7"); w.Code != 200 {
			t.Errorf("15 minutes later: %d, want 200", w.Code)
		}
	})
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
	for _, c := range []struct {
		answer     core.Decision
		status     int
		retryAfter string
		remaining  string
	}{
		{core.Decision{Allowed: true, Remaining: 3}, 200, "", "3"},
		{core.Decision{RetryAfter: 90 * time.Second}, 429, "90", "0"},
		{core.Decision{RetryAfter: core.Never}, 429, "", "0"}, // the cost exceeds the limit
	} {
		w := login(newLogin(storetest.Fixed(c.answer), 0), "198.51.100.7")
		retryAfter, remaining := w.Header().Get("Retry-After"), w.Header().Get("X-RateLimit-Remaining")
		if w.Code != c.status || retryAfter != c.retryAfter || remaining != c.remaining {
			t.Errorf("%+v: %d, Retry-After %q, Remaining %q", c.answer, w.Code, retryAfter, remaining)
		}
	}
}

func TestLoginFailsClosed(t *testing.T) {
	for _, err := range []error{errors.New("connection refused"), core.ErrTimeout} {
		w := login(newLogin(storetest.Fixed(core.Decision{Err: err}), 0), "198.51.100.7")
		if w.Code != 503 || w.Header().Get("Retry-After") == "" {
			t.Errorf("%v: %d, want 503 with Retry-After", err, w.Code)
		}
	}
}

func TestStoreGoesAndComes(t *testing.T) {
	away := false
	store := storetest.Wrap(memstore.New(), func(ctx context.Context, call storetest.Call) (core.Decision, error) {
		if away {
			return core.Decision{}, errors.New("connection refused")
		}
		return call.Next(ctx)
	})
	h := newLogin(store, 0)
	for i, status := range []int{200, 200, 503, 503, 200, 200, 200, 429} {
		away = i == 2 || i == 3
		if w := login(h, "198.51.100.7"); w.Code != status {
			t.Errorf("login %d: %d, want %d", i+1, w.Code, status)
		}
	}
}

func TestRedisIsGone(t *testing.T) {
	store, err := redisstore.Open("redis://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if w := login(newLogin(store, 0), "198.51.100.7"); w.Code != 503 {
		t.Errorf("%d, want 503", w.Code)
	}
}

func TestKey(t *testing.T) {
	key := keyfuncs.IP(keyfuncs.TrustProxies(netip.MustParsePrefix("10.0.0.0/8")))
	for _, c := range []struct{ peer, forwarded, want string }{
		{"203.0.113.5:52241", "", "ip:203.0.113.5"},
		{"203.0.113.5:52241", "192.0.2.1", "ip:203.0.113.5"},              // no proxy of ours
		{"10.0.0.1:4711", "192.0.2.1, 198.51.100.7", "ip:198.51.100.7"},   // 192.0.2.1 is forged
		{"10.0.0.1:4711", "2001:db8:1:2:3:4:5:6", "ip:2001:db8:1:2::/64"}, // all addresses of one host
		{"10.0.0.1:4711", "192.0.2.1, not an address", "ip:10.0.0.1"},     // see OnUntrusted
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.peer
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		if got, err := key(r); got != c.want || err != nil {
			t.Errorf("%s, %q: %q, %v, want %q", c.peer, c.forwarded, got, err, c.want)
		}
	}
}

func TestRefusal(t *testing.T) {
	limiter := core.Must(core.New(core.Config{
		Store:  storetest.Fixed(core.Decision{RetryAfter: time.Minute}),
		Limits: []core.Limit{core.PerMinute(100)},
	}))
	slowDown := nethttp.WithRefusal(func(w http.ResponseWriter, r *http.Request, d core.Decision) {
		w.WriteHeader(nethttp.Status(d))
		fmt.Fprintf(w, "slow down for %v", d.RetryAfter)
	})
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler was reached") })

	mux := http.NewServeMux()
	mux.Handle("/", nethttp.Middleware(limiter, keyfuncs.RemoteIP, slowDown)(handler))
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != 429 || w.Body.String() != "slow down for 1m0s" {
		t.Errorf("%d %q, want 429 and how long to wait", w.Code, w.Body)
	}
}

// startRedis starts a redis-server, which ends with the test, and returns its URL.
func startRedis(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	socket := filepath.Join(dir, "redis") // a path of at most 103 bytes, on Linux 107
	server := exec.Command("redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir)
	output, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if strings.Contains(strings.ToLower(lines.Text()), "ready to accept connections") {
			return "unix://" + socket
		}
	}
	t.Fatal("redis-server has ended")
	return ""
}

func TestLoginsOnTwoServers(t *testing.T) {
	url := startRedis(t)
	var servers []http.Handler
	for range 2 {
		store, err := redisstore.Open(url)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		servers = append(servers, newLogin(store, 10*time.Second))
	}
	for i := range 5 {
		if w := login(servers[i%2], "198.51.100.7"); w.Code != 200 {
			t.Fatalf("login %d: %d, want 200", i+1, w.Code)
		}
	}
	for i, h := range servers {
		if w := login(h, "198.51.100.7"); w.Code != 429 {
			t.Errorf("server %d: %d, want 429", i+1, w.Code)
		}
	}
}
