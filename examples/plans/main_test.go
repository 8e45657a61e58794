package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/internal/redistest"
)

// client asks one of the two handlers.
type client struct {
	*testing.T
	http.Handler
}

// want sends a request with a key, and a login by form, and checks the status. It returns the answer.
func (c client) want(status int, request, key string) *httptest.ResponseRecorder {
	c.Helper()
	method, target, _ := strings.Cut(request, " ")
	path, password, _ := strings.Cut(target, "?")
	r := httptest.NewRequest(method, path, strings.NewReader(url.Values{"password": {password}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if key != "" {
		r.Header.Set("X-API-Key", key)
	}
	answer := httptest.NewRecorder()
	c.ServeHTTP(answer, r)
	if answer.Code != status {
		c.Errorf("%s with the key %q: %d, want %d", request, key, answer.Code, status)
	}
	return answer
}

// forEach runs a test for net/http and for gin.
func forEach(t *testing.T, store func() core.Store, test func(c client)) {
	t.Run("nethttp", func(t *testing.T) { test(client{t, newService(store(), nil).routes()}) })
	t.Run("gin", func(t *testing.T) { test(client{t, newService(store(), nil).ginRoutes()}) })
}

// TestLimits goes through the plans, the group, the keys and the login.
func TestLimits(t *testing.T) {
	forEach(t, func() core.Store { return memstore.New() }, func(c client) {
		for range 10 {
			c.want(200, "GET /v1/items", "key-of-bob")
		}
		refusal := c.want(429, "GET /v1/items", "key-of-bob")
		var got struct {
			Error struct {
				Code    int
				Message string
				Seconds int `json:"retry_after_seconds"`
			}
		}
		err := json.Unmarshal(refusal.Body.Bytes(), &got)
		seconds := fmt.Sprint(got.Error.Seconds)
		if err != nil || got.Error.Code != 429 || refusal.Header().Get("Retry-After") != seconds {
			c.Errorf("a refusal is %s, %v, with Retry-After %q", refusal.Body, err, refusal.Header().Get("Retry-After"))
		}
		for range 5 {
			c.want(200, "GET /v1/exports/7", "key-of-acme")
		}
		c.want(429, "GET /v1/exports/8", "key-of-acme")
		c.want(200, "GET /v1/items", "key-of-acme") // the plan has 594 left
		c.want(401, "GET /v1/items", "")
		for range 10 {
			c.want(401, "GET /v1/items", "a-guess")
		}
		c.want(429, "GET /v1/items", "a-guess")

		for range 10 {
			c.want(200, "POST /login?right", "")
		}
		for range 5 {
			c.want(401, "POST /login?wrong", "")
		}
		c.want(429, "POST /login?right", "")
		if health := c.want(200, "GET /health", ""); health.Header().Get("X-RateLimit-Limit") != "" {
			c.Errorf("the health check has a limit: %v", health.Header())
		}
	})
}

// TestOutage: without the store the login is closed, and the rest is open.
func TestOutage(t *testing.T) {
	forEach(t, func() core.Store { return storetest.Fixed(core.Decision{Err: errors.New("gone")}) }, func(c client) {
		c.want(503, "POST /login?right", "")
		c.want(200, "GET /v1/items", "key-of-bob")
		c.want(200, "GET /health", "")
	})
}

// TestProgram starts the program in memory, reads its metrics, and interrupts it.
func TestProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plans")
	if out, err := exec.Command("go", "build", "-o", file, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var addresses [2]string
	for i := range addresses {
		port, err := redistest.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		addresses[i] = fmt.Sprint("127.0.0.1:", port)
	}
	program := exec.Command(file, "-gin", "-addr", addresses[0], "-metrics", addresses[1])
	program.Env = append(os.Environ(), "REDIS_URL=")
	if err := redistest.Launch(program); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Process.Kill() })
	get := func(url string) (body []byte, err error) {
		response, err := http.Get(url)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		return io.ReadAll(response.Body)
	}
	redistest.WaitFor(t, "the program", func() error {
		_, err := get("http://" + addresses[0] + "/v1/items")
		return err
	})
	redistest.WaitFor(t, "the metrics", func() error {
		body, err := get("http://" + addresses[1] + "/metrics")
		if err == nil && !strings.Contains(string(body), `sash_decisions_total{`) {
			err = fmt.Errorf("no decisions:\n%s", body)
		}
		return err
	})
	_ = program.Process.Signal(os.Interrupt)
	if err := program.Wait(); err != nil {
		t.Errorf("interrupted, the program ends with %v", err)
	}
}
