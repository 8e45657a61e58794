// Package apptest replays one list of requests against an example server, so
// that all of them are known to give the same answers.
package apptest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/examples/internal/app"
	"github.com/sashlimit/sash/keyfuncs"
)

// Replay starts the example of these routes in this process, counting in memory,
// and checks its answers over TCP.
func Replay(t *testing.T, routes func(*app.App) http.Handler) {
	t.Run("requests", func(t *testing.T) { requests(t, routes) })
	t.Run("limits", func(t *testing.T) { limits(t, routes) })
	t.Run("store down", func(t *testing.T) { storeDown(t, routes) })
	t.Run("access log", func(t *testing.T) { accessLog(t, routes) })
}

// response is what a client sees.
type response struct {
	status int
	header http.Header
	body   string
}

// start returns a function that sends a request: method, target as it stands
// on the wire, and pairs of a header's name and value.
func start(t *testing.T, store core.Store, log io.Writer, routes func(*app.App) http.Handler) func(method, target string, header ...string) response {
	t.Helper()
	logger := slog.New(slog.NewJSONHandler(log, nil))
	server := httptest.NewServer(app.Handler(routes(app.New(store, keyfuncs.RemoteIP, logger)), logger))
	t.Cleanup(server.Close)
	client := server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return func(method, target string, header ...string) response {
		t.Helper()
		r, err := http.NewRequest(method, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.URL.Opaque = target // unchanged by this client
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

func requests(t *testing.T, routes func(*app.App) http.Handler) {
	const json, get, post = "application/json", "GET, HEAD, OPTIONS", "POST, OPTIONS"
	const missing, method = `{"error":"not found"}`, `{"error":"method not allowed"}`
	send := start(t, stopped(), io.Discard, routes)
	for _, c := range []struct {
		method, target string
		status         int
		body           string
		limit          string // X-RateLimit-Limit
		allow          string
	}{
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

		{"GET", "/", 404, missing, "", ""},
		{"HEAD", "/", 404, "", "", ""},
		{"OPTIONS", "/", 404, missing, "", ""},
		{"GET", "/nowhere", 404, missing, "", ""},
		{"GET", "/api/data/", 404, missing, "", ""},
		{"GET", "/api", 404, missing, "", ""},
		{"GET", "/API/data", 404, missing, "", ""},
		{"GET", "//health", 404, missing, "", ""},
		{"GET", "/api/../health", 404, missing, "", ""},
		{"GET", "/api/..%2fhealth", 404, missing, "", ""},
		{"GET", "/%68ealth", 404, missing, "", ""},

		{"POST", "/api/data", 405, method, "", get},
		{"DELETE", "/api/search", 405, method, "", get},
		{"PUT", "/api/status", 405, method, "", get},
		{"GET", "/api/upload", 405, method, "", post},
		{"HEAD", "/api/upload", 405, "", "", post},
		{"GET", "/login", 405, method, "", post},
		{"POST", "/health", 405, method, "", get},
		{"BREW", "/ready", 405, method, "", get},

		{"OPTIONS", "/api/data", 204, "", "", get},
		{"OPTIONS", "/api/upload", 204, "", "", post},
		{"OPTIONS", "/login", 204, "", "", post},
		{"OPTIONS", "/health", 204, "", "", get},
	} {
		got := send(c.method, c.target)
		wantType := json
		if c.status == 204 {
			wantType = ""
		}
		if got.status != c.status || got.body != c.body || got.header.Get("Content-Type") != wantType || got.header.Get("X-RateLimit-Limit") != c.limit || got.header.Get("Allow") != c.allow {
			t.Errorf("%s %s: %d %q %v\nwant %d %q, limit %q, Allow %q", c.method, c.target, got.status, got.body, got.header, c.status, c.body, c.limit, c.allow)
		}
		wantReset := ""
		switch {
		case c.target == "/login" && c.limit != "":
			wantReset = "900"
		case c.limit != "":
			wantReset = "60"
		}
		if reset := got.header.Get("X-RateLimit-Reset"); reset != wantReset {
			t.Errorf("%s %s: a reset of %q, want %q", c.method, c.target, reset, wantReset)
		}
	}
}

// stopped is a store whose clock stands still.
func stopped() core.Store {
	return memstore.New(memstore.WithClock(func() time.Time { return time.Unix(1_800_000_000, 0) }))
}

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
		{"POST", "/api/upload", []string{"X-API-Key", "invented"}, 0}, // counts as its address
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
	for target, seconds := range map[string]string{"/login": "900", "/api/upload": "60"} {
		got := send("POST", target)
		header := got.header.Get("X-RateLimit-Limit") + " " + got.header.Get("X-RateLimit-Remaining") + " " + got.header.Get("X-RateLimit-Reset") + " " + got.header.Get("Retry-After") + " " + got.header.Get("Cache-Control") + " " + got.header.Get("Content-Type")
		wantHeader := "5 0 " + seconds + " " + seconds + " no-store application/problem+json"
		wantBody := `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","status":429,"detail":"The limit on requests is reached. Try again in ` + seconds + ` seconds.","error":"rate_limit_exceeded","retry_after":` + seconds + `,"violated-policies":["` + map[string]string{"900": "15m0s", "60": "1m0s"}[seconds] + `"]}`
		if got.status != 429 || header != wantHeader || got.body != wantBody {
			t.Errorf("POST %s: %d %s\n%s\nwant 429 %s\n%s", target, got.status, header, got.body, wantHeader, wantBody)
		}
	}
	for _, target := range []string{"/health", "/ready", "/api/status"} {
		if got := send("GET", target); got.status != 200 {
			t.Errorf("GET %s: %d", target, got.status)
		}
	}
}

// broken is a store that cannot be asked.
type broken struct{}

func (broken) Bind(core.Rule) (core.Counts, error) { return broken{}, nil }
func (broken) Take(context.Context, string, int64, bool) (core.Decision, error) {
	return core.Decision{}, errors.New("down")
}
func (broken) Reset(context.Context, string) error { return errors.New("down") }

func storeDown(t *testing.T, routes func(*app.App) http.Handler) {
	send := start(t, broken{}, io.Discard, routes)
	for target, method := range map[string]string{"/api/data": "GET", "/api/search": "GET", "/api/upload": "POST", "/api/status": "GET", "/health": "GET"} {
		if got := send(method, target); got.status != 200 || got.header.Get("X-RateLimit-Limit") != "" {
			t.Errorf("%s %s: %d %v", method, target, got.status, got.header)
		}
	}
	if got := send("POST", "/login"); got.status != 503 || got.header.Get("Retry-After") != "5" {
		t.Errorf("POST /login: %d %v", got.status, got.header)
	}
}

// accessLog sends what would forge a line if it were not escaped.
func accessLog(t *testing.T, routes func(*app.App) http.Handler) {
	var log bytes.Buffer // written before the answer is complete
	send := start(t, memstore.New(), &log, routes)
	send("GET", "/%0a%7b%22msg%22:%22forged%22%7d?secret=1")
	got := log.String()
	for _, want := range []string{`"method":"GET"`, `"path":"/\n{\"msg\":\"forged\"}"`, `"status":404`, `"duration":`, `"remote":"127.0.0.1:`} {
		if !strings.Contains(got, want) {
			t.Errorf("the log lacks %s: %s", want, got)
		}
	}
	if strings.Count(got, "\n") != 1 || strings.Contains(got, "secret") {
		t.Errorf("not one line, or with the query: %s", got)
	}
}
