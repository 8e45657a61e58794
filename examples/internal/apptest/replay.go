// Package apptest sends the same requests to each example server, to check that all
// examples give the same answers.
package apptest

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/examples/internal/app"
	"github.com/sashlimit/sash/keyfuncs"
)

// Replay starts the example with these routes in this process, with a store in
// memory, and checks its answers over TCP.
func Replay(t *testing.T, routes func(*app.App) http.Handler) {
	t.Run("requests", func(t *testing.T) { requests(t, routes) })
	t.Run("limits", func(t *testing.T) { limits(t, routes) })
	t.Run("store down", func(t *testing.T) { storeDown(t, routes) })
	t.Run("access log", func(t *testing.T) { accessLog(t, routes) })
}

// response is a response as a client sees it.
type response struct {
	status int
	header http.Header
	body   string
}

// sender sends a request and returns its response. target is sent unchanged;
// header holds names and values in turn.
type sender func(method, target string, header ...string) response

// start starts an example, which runs until the test ends, and returns a function
// that sends requests to it. The access log is written to log.
func start(t *testing.T, store core.Store, log io.Writer, routes func(*app.App) http.Handler) sender {
	t.Helper()
	logger := slog.New(slog.NewJSONHandler(log, nil))
	server := httptest.NewServer(app.Handler(routes(app.New(store, 0, keyfuncs.RemoteIP, logger)), logger))
	t.Cleanup(server.Close)
	client := server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return func(method, target string, header ...string) response {
		t.Helper()
		r, err := http.NewRequest(method, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.URL.Opaque = target // the client sends an opaque target unchanged
		for i := 0; i < len(header); i += 2 {
			r.Header.Add(header[i], header[i+1])
		}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response{res.StatusCode, res.Header, string(body)}
	}
}

// Bodies of answers where no route matches, and values of their field Allow.
const (
	notFound   = `{"error":"not found"}`
	notAllowed = `{"error":"method not allowed"}`
	allowGet   = "GET, HEAD, OPTIONS"
	allowPost  = "POST, OPTIONS"
)

// exchange is a request and the wanted response.
type exchange struct {
	method, target string
	status         int
	body           string
	limit          string // X-RateLimit-Limit
	allow          string // Allow
}

// exchanges are one request for each route and method, and requests that no route
// matches. No client sends enough of them to be refused.
var exchanges = []exchange{
	{"GET", "/api/data", 200, `{"message":"Hello, World!"}`, "100", ""},
	{"HEAD", "/api/data", 200, "", "100", ""},
	{"GET", "/api/data?q=1", 200, `{"message":"Hello, World!"}`, "100", ""},
	{"GET", "/api/search", 200, `{"results":[]}`, "30", ""},
	{"HEAD", "/api/search", 200, "", "30", ""},
	{"POST", "/api/upload", 200, `{"status":"uploaded"}`, "5", ""},
	{"GET", "/api/status", 200, `{"status":"ok"}`, "1000", ""},
	{"HEAD", "/api/status", 200, "", "1000", ""},
	{"POST", "/login", 200, `{"status":"welcome"}`, "5", ""},
	{"GET", "/health", 200, `{"status":"ok"}`, "", ""},
	{"HEAD", "/health", 200, "", "", ""},
	{"GET", "/ready", 200, `{"status":"ok"}`, "", ""},
	{"HEAD", "/ready", 200, "", "", ""},

	{"GET", "/", 404, notFound, "", ""},
	{"HEAD", "/", 404, "", "", ""},
	{"OPTIONS", "/", 404, notFound, "", ""},
	{"GET", "/nowhere", 404, notFound, "", ""},
	{"GET", "/api/data/", 404, notFound, "", ""},
	{"GET", "/api", 404, notFound, "", ""},
	{"GET", "/API/data", 404, notFound, "", ""},
	{"GET", "//health", 404, notFound, "", ""},
	{"GET", "/api/../health", 404, notFound, "", ""},
	{"GET", "/api/..%2fhealth", 404, notFound, "", ""},
	{"GET", "/%68ealth", 404, notFound, "", ""},

	{"POST", "/api/data", 405, notAllowed, "", allowGet},
	{"DELETE", "/api/search", 405, notAllowed, "", allowGet},
	{"PUT", "/api/status", 405, notAllowed, "", allowGet},
	{"GET", "/api/upload", 405, notAllowed, "", allowPost},
	{"HEAD", "/api/upload", 405, "", "", allowPost},
	{"GET", "/login", 405, notAllowed, "", allowPost},
	{"POST", "/health", 405, notAllowed, "", allowGet},
	{"BREW", "/ready", 405, notAllowed, "", allowGet},

	{"OPTIONS", "/api/data", 204, "", "", allowGet},
	{"OPTIONS", "/api/upload", 204, "", "", allowPost},
	{"OPTIONS", "/login", 204, "", "", allowPost},
	{"OPTIONS", "/health", 204, "", "", allowGet},
}

// requests checks the answers of all routes below their limits.
func requests(t *testing.T, routes func(*app.App) http.Handler) {
	send := start(t, stopped(), io.Discard, routes)
	for _, want := range exchanges {
		got := send(want.method, want.target)
		wantType, wantReset := "application/json", ""
		if want.status == 204 {
			wantType = ""
		}
		switch {
		case want.target == "/login" && want.limit != "":
			wantReset = "900"
		case want.target == "/api/status" && want.limit != "":
			wantReset = "61" // a unit of a coarse log counts from the end of its second on
		case want.limit != "":
			wantReset = "60"
		}
		if got.status != want.status || got.body != want.body || got.header.Get("Allow") != want.allow ||
			got.header.Get("Content-Type") != wantType || got.header.Get("X-RateLimit-Limit") != want.limit {
			t.Errorf("%s %s: %d %q %v\nwant %d %q, limit %q, Allow %q", want.method, want.target,
				got.status, got.body, got.header, want.status, want.body, want.limit, want.allow)
		}
		if reset := got.header.Get("X-RateLimit-Reset"); reset != wantReset {
			t.Errorf("%s %s: a reset of %q, want %q", want.method, want.target, reset, wantReset)
		}
	}
}

// stopped returns a store with a clock that stands still.
func stopped() core.Store {
	return memstore.New(memstore.WithClock(func() time.Time { return time.Unix(1_800_000_000, 0) }))
}

// limits checks how many requests each route admits, and the response to the next
// one.
func limits(t *testing.T, routes func(*app.App) http.Handler) {
	send := start(t, stopped(), io.Discard, routes)
	admitted := func(method, target string, header ...string) int {
		n := 0
		for send(method, target, header...).status == 200 {
			if n++; n > 2000 {
				t.Fatalf("%s %s is not limited", method, target)
			}
		}
		return n
	}
	for _, c := range []struct {
		method, target string
		header         []string
		want           int
	}{
		{"POST", "/api/upload", nil, 5},
		{"POST", "/api/upload", []string{"X-API-Key", "demo-key-1"}, 5},
		{"POST", "/api/upload", []string{"X-API-Key", "demo-key-2"}, 5},
		{"POST", "/api/upload", []string{"X-API-Key", "invented"}, 0}, // an unknown key counts as its address
		{"POST", "/api/upload", []string{"X-Forwarded-For", "203.0.113.9"}, 0},
		{"POST", "/login", nil, 5},
		{"POST", "/login", []string{"X-API-Key", "demo-key-1"}, 0}, // a key buys no more attempts
		{"GET", "/api/search", nil, 30},
		{"GET", "/api/data", nil, 100},
		{"HEAD", "/api/data", nil, 0},
	} {
		if got := admitted(c.method, c.target, c.header...); got != c.want {
			t.Errorf("%s %s %q: %d admitted, want %d", c.method, c.target, c.header, got, c.want)
		}
	}
	for target, wait := range map[string]string{"/login": "900", "/api/upload": "60"} {
		got := send("POST", target)
		if after := got.header.Get("Retry-After"); got.status != 429 || after != wait {
			t.Errorf("POST %s: got %d, Retry-After %q, want 429 and %s", target, got.status, after, wait)
		}
	}
	for _, target := range []string{"/health", "/ready", "/api/status"} {
		if got := send("GET", target); got.status != 200 {
			t.Errorf("GET %s: %d", target, got.status)
		}
	}
}

// storeDown checks that all routes but the login are served while the store fails,
// without limit fields, and that the login is refused.
func storeDown(t *testing.T, routes func(*app.App) http.Handler) {
	send := start(t, storetest.Fixed(core.Decision{Err: errors.New("down")}), io.Discard, routes)
	methodByTarget := map[string]string{
		"/api/data":   "GET",
		"/api/search": "GET",
		"/api/upload": "POST",
		"/api/status": "GET",
		"/health":     "GET",
	}
	for target, method := range methodByTarget {
		got := send(method, target, "X-API-Key", "demo-key-1")
		if got.status != 200 || got.header.Get("X-RateLimit-Limit") != "" {
			t.Errorf("%s %s: %d %v; want 200 without limit fields", method, target, got.status, got.header)
		}
	}
	got := send("POST", "/login")
	wait, err := strconv.Atoi(got.header.Get("Retry-After"))
	if got.status != 503 || err != nil || wait < 5 || wait > 10 {
		t.Errorf("POST /login: %d %v; want 503 and a Retry-After of 5 to 10", got.status, got.header)
	}
}

// accessLog checks the access log of a request with a path that would forge a line
// if the log did not escape it.
func accessLog(t *testing.T, routes func(*app.App) http.Handler) {
	var log bytes.Buffer // the server writes it before the response is complete
	send := start(t, memstore.New(), &log, routes)
	send("GET", "/%0a%7b%22msg%22:%22forged%22%7d?secret=1")
	got := log.String()
	for _, want := range []string{
		`"method":"GET"`, `"path":"/\n{\"msg\":\"forged\"}"`, `"status":404`,
		`"duration":`, `"remote":"127.0.0.1:`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the log lacks %s: %s", want, got)
		}
	}
	if strings.Count(got, "\n") != 1 || strings.Contains(got, "secret") {
		t.Errorf("the log has more than one line, or the query: %s", got)
	}
}
