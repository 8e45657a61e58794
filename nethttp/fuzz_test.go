package nethttp

import (
	"bufio"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// FuzzSkipPaths sends what the fuzzer makes of a request line to a guard that excludes
// two paths: nothing but GET and HEAD of the one and POST of the other is excluded.
func FuzzSkipPaths(f *testing.F) {
	for _, line := range []string{
		"GET /health", "HEAD /health", "POST /health", "get /health", "GET /hook", "POST /hook", "POST //hook",
		"GET /health?x", "GET /health#x", "GET /%68ealth", "GET /api/..%2fhealth", "GET /health/", "GET //health",
		"GET http://a/health", "GET http://a//health", "OPTIONS *", "CONNECT /health", "GET /health%20",
		"GET /health;a",
	} {
		f.Add(line)
	}
	var c guard.Config
	if err := SkipPaths("/health", "POST /hook").(option).Apply(&c); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, line string) {
		text := line + " HTTP/1.1\r\nHost: a\r\n\r\n"
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			return
		}
		target := strings.TrimPrefix(strings.TrimPrefix(r.RequestURI, "http://a"), "http:")
		path, _, _ := strings.Cut(target, "?")
		health := (r.Method == "GET" || r.Method == "HEAD") && strings.HasSuffix(path, "/health")
		hook := r.Method == "POST" && strings.HasSuffix(path, "/hook")
		if got := c.IsSkipped(r, nil); got && !health && !hook {
			t.Errorf("%q is excluded", line)
		}
		if slices.Contains([]string{"GET /health", "HEAD /health", "POST /hook"}, line) && !c.IsSkipped(r, nil) {
			t.Errorf("%q is not excluded", line)
		}
	})
}
