package nethttp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

var hello = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") })

func show(h http.Handler, path string, fields ...string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	fmt.Println(path, w.Code)
	for _, name := range fields {
		fmt.Printf("  %s: %q\n", name, w.Header().Get(name))
	}
}

func ExampleMiddleware() {
	limiter := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(2)}}))
	handler := nethttp.Middleware(limiter, keyfuncs.RemoteIP, nethttp.SkipPaths("/health"))(hello)

	show(handler, "/", "X-RateLimit-Limit", "X-RateLimit-Remaining")
	show(handler, "/health", "X-RateLimit-Limit")
	show(handler, "/")
	show(handler, "/", "Retry-After", "Content-Type")
	// Output:
	// / 200
	//   X-RateLimit-Limit: "2"
	//   X-RateLimit-Remaining: "1"
	// /health 200
	//   X-RateLimit-Limit: ""
	// / 200
	// / 429
	//   Retry-After: "3600"
	//   Content-Type: "application/problem+json"
}

// Check serves frameworks that are built on net/http and have no adapter.
func ExampleGuard_Check() {
	limiter := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(1)}}))
	guard := core.Must(nethttp.New(limiter, keyfuncs.RemoteIP))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !guard.Check(w, r) {
			return // the refusal is written
		}
		fmt.Fprintln(w, "hello")
	})
	show(handler, "/")
	show(handler, "/")
	// Output:
	// / 200
	// / 429
}

// A refusal in the API's own form. The fields are set already.
func ExampleWithRefusal() {
	limiter := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(1)}}))
	refuse := func(w http.ResponseWriter, r *http.Request, d core.Decision) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(nethttp.Status(d))
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": false})
	}
	handler := nethttp.Middleware(limiter, keyfuncs.RemoteIP, nethttp.WithRefusal(refuse))(hello)
	show(handler, "/")
	show(handler, "/", "Content-Type", "Retry-After")
	// Output:
	// / 200
	// / 429
	//   Content-Type: "application/json"
	//   Retry-After: "3600"
}

// A page for browsers; programs, and requests that no store could decide, get the usual answer.
func ExampleRefuse() {
	limiter := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(1)}}))
	page := nethttp.WithRefusal(func(w http.ResponseWriter, r *http.Request, d core.Decision) {
		seconds, ok := headers.RetryAfter(d)
		browser := strings.Contains(r.Header.Get("Accept"), "text/html")
		if !ok || !browser || nethttp.Status(d) != http.StatusTooManyRequests {
			nethttp.Refuse(w, r, d)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8") // Retry-After and the limit fields are set
		w.WriteHeader(nethttp.Status(d))
		fmt.Fprintf(w, "<!doctype html><title>Slow down</title><p>Come back in %d seconds.", seconds)
	})
	handler := nethttp.Middleware(limiter, keyfuncs.RemoteIP, page)(hello)
	for _, accept := range []string{"*/*", "*/*", "text/html"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("Content-Type"))
	}
	// Output:
	// 200 text/plain; charset=utf-8
	// 429 application/problem+json
	// 429 text/html; charset=utf-8
}
