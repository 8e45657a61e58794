package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// server is an example that runs on a free port.
type server struct {
	url  string
	log  string // what it wrote before it listened
	stop context.CancelFunc
	done chan error
}

// serving starts an example, which runs until the test ends, and waits until it
// listens.
func serving(t *testing.T, routes func(*App) http.Handler, args ...string) *server {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	s := &server{stop: stop, done: make(chan error, 1)}
	go func() {
		s.done <- run(ctx, append([]string{"-addr", "127.0.0.1:0"}, args...), in, routes)
		in.Close()
	}()
	lines := bufio.NewScanner(out)
	var line struct{ Msg, Addr string }
	for line.Msg != "listening" {
		s.log += lines.Text()
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &line) != nil {
			t.Fatalf("it does not listen: %s%s", s.log, lines.Text())
		}
	}
	go func() { // reads the other lines, so that the server does not block on the pipe
		for lines.Scan() {
		}
	}()
	s.url = "http://" + line.Addr
	t.Cleanup(stop)
	return s
}

func get(t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// TestGracefulShutdown: the server ends after the running request has finished.
func TestGracefulShutdown(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	s := serving(t, func(*App) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(begun)
			<-finish
			JSON(`{"status":"ok"}`)(w, r)
		})
	})
	go func() {
		<-begun
		s.stop()
		for { // ends when the listener is closed
			res, err := http.Head(s.url)
			if err != nil {
				break
			}
			res.Body.Close()
		}
		close(finish)
	}()
	if res, body := get(t, s.url); res.StatusCode != 200 || body != `{"status":"ok"}` {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if err := <-s.done; err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

// TestRedisDownAtStart: a server starts while Redis is down, which it says, and requests
// follow the policies of their limiters.
func TestRedisDownAtStart(t *testing.T) {
	s := serving(t, func(a *App) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !a.Data.Allow(r.Context(), "k").Allowed || a.Login.Allow(r.Context(), "k").Allowed {
				w.WriteHeader(http.StatusTeapot)
			}
		})
	}, "-redis", "redis://127.0.0.1:1/0")
	if res, _ := get(t, s.url); res.StatusCode != 200 {
		t.Errorf("%d: the policies are not fail-open, and fail-closed for the login", res.StatusCode)
	}
	if !strings.Contains(s.log, "Redis is not fit for counting") || !strings.Contains(s.log, "cannot be reached") {
		t.Errorf("the log says %q", s.log)
	}
}

func TestTrust(t *testing.T) {
	s := serving(t, func(a *App) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("X-Forwarded-For", "203.0.113.9")
			key, err := a.IP(r)
			if err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(w, key)
		})
	}, "-trust", "10.0.0.0/8, 127.0.0.0/8")
	if _, body := get(t, s.url); body != "ip:203.0.113.9" {
		t.Errorf("the client is %q", body)
	}
}

func TestBadFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-redis", "localhost:6379"}, "-redis"},
		{[]string{"-redis", "http://127.0.0.1:6379"}, "-redis"},
		{[]string{"-trust", "10.0.0.0"}, "-trust"},
		{[]string{"-trust", "10.0.0.0/8,"}, "-trust"},
		{[]string{"-trust", "0.0.0.0/0"}, "-trust"},
		{[]string{"-addr", "127.0.0.1:none"}, "none"},
		{[]string{"-nothing"}, "nothing"},
		{[]string{"serve"}, `"serve"`},
	} {
		err := run(t.Context(), c.args, io.Discard, func(*App) http.Handler { return http.NotFoundHandler() })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v does not name %s", c.args, err, c.want)
		}
	}
	var help bytes.Buffer
	err := run(t.Context(), []string{"-h"}, &help, nil)
	if err != nil || !strings.Contains(help.String(), "-redis URL") {
		t.Errorf("-h: %v, %q", err, &help)
	}
}
