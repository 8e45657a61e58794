// Package examples_test runs the example servers as a user does.
package examples_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sashlimit/sash/internal/redistest"
)

var names = []string{"nethttp", "chi", "gin", "echo", "echo5"}

// build builds all examples and returns the folder of the programs.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	for _, name := range names {
		args = append(args, "./"+name)
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// server is an example under way.
type server struct {
	t         *testing.T
	name, url string
	log       bytes.Buffer // complete after stop
	program   *exec.Cmd
}

// start starts an example on a free port, and waits until it serves.
func start(t *testing.T, dir, name, redis string) *server {
	t.Helper()
	port, err := redistest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprint("127.0.0.1:", port)
	s := &server{t: t, name: name, url: "http://" + addr}
	s.program = exec.Command(filepath.Join(dir, name), "-addr", addr, "-trust", "127.0.0.0/8")
	s.program.Env, s.program.Stderr = append(os.Environ(), "REDIS_URL="+redis), &s.log
	if err := redistest.Launch(s.program); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.program.Process.Kill() })
	redistest.WaitFor(t, name, func() error {
		response, err := http.Get(s.url + "/health")
		if err == nil {
			response.Body.Close()
		}
		return err
	})
	return s
}

// ask sends a request through a trusted proxy.
func (s *server) ask(method, path string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("X-Forwarded-For", "203.0.113.1")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	response.Body.Close()
	return response
}

// want checks the status of an answer, and the limit that it tells.
func (s *server) want(method, path string, status int, limit string) {
	s.t.Helper()
	got := s.ask(method, path)
	if told := got.Header.Get("X-RateLimit-Limit"); got.StatusCode != status || told != limit {
		s.t.Errorf("%s: %s %s: %s with the limit %q, want %d with %q",
			s.name, method, path, got.Status, told, status, limit)
	}
}

// stop interrupts the program, which must end well, and returns its log.
func (s *server) stop() string {
	s.t.Helper()
	_ = s.program.Process.Signal(os.Interrupt)
	if err := s.program.Wait(); err != nil {
		s.t.Errorf("%s ended with %v", s.name, err)
	}
	return s.log.String()
}

// TestExamples: all examples limit alike, in memory each by itself, and together in one Redis. Without a Redis that
// answers they serve all but the login, and say so.
func TestExamples(t *testing.T) {
	dir, shared, admitted := build(t), redistest.Start(t).URL(), 0
	for _, name := range names {
		s := start(t, dir, name, "")
		s.want("GET", "/api/data", 200, "100")
		for range 5 {
			s.want("POST", "/api/upload", 200, "5")
			s.want("POST", "/login", 200, "5")
		}
		s.want("POST", "/api/upload", 429, "5")
		s.want("POST", "/login", 429, "5")
		s.want("GET", "/health", 200, "")
		s.stop()

		s = start(t, dir, name, shared)
		// A busy machine may take longer than the timeout.
		redistest.WaitFor(t, name+" to refuse a login", func() error {
			response := s.ask("POST", "/login")
			if response.StatusCode == http.StatusOK {
				admitted++
			}
			if response.StatusCode != http.StatusTooManyRequests {
				return errors.New(response.Status)
			}
			return nil
		})
		s.stop()

		s = start(t, dir, name, "redis://127.0.0.1:1")
		s.want("GET", "/api/data", 200, "")
		s.want("POST", "/login", 503, "")
		if log := s.stop(); !strings.Contains(log, "cannot be reached") {
			t.Errorf("%s without Redis: %s", name, log)
		}
	}
	if admitted == 0 || admitted > 5 {
		t.Errorf("%d logins on one Redis, want at most 5", admitted)
	}
}

// TestLength: an example is short enough to be read and copied.
func TestLength(t *testing.T) {
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(name, "main.go"))
		if n := bytes.Count(text, []byte("\n")); err != nil || n > 70 {
			t.Errorf("%s: %d lines (%v), want at most 70", name, n, err)
		}
	}
}
