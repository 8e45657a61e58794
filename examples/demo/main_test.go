package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sashlimit/sash/examples/internal/apptest"
)

func TestReplay(t *testing.T) { apptest.Replay(t, routes) }

// serving starts the demo, which runs until the test ends, and returns what it says when it listens, and its URL.
func serving(t *testing.T) (welcome, url string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{"-addr", "127.0.0.1:0"}, in, io.Discard)
		in.Close()
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the demo ended with %v", err)
		}
	})
	text := make([]byte, 4096) // Fprintf writes at once
	n, err := out.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, out)
	welcome = string(text[:n])
	_, rest, _ := strings.Cut(welcome, "Listening on ")
	url, _, _ = strings.Cut(rest, ",")
	return welcome, url
}

// TestDemo: what the demo says is true, and it serves both the page and the API.
func TestDemo(t *testing.T) {
	welcome, url := serving(t)
	if !strings.Contains(welcome, "curl -i "+url+"/api/data\n") || !strings.Contains(welcome, "counting in memory") {
		t.Errorf("the demo says %q", welcome)
	}
	for path, want := range map[string]string{
		"/":              "<title>sash",
		"/api/data":      `{"message":"Hello, World!"}`,
		"/health":        `{"status":"ok"}`,
		"//health":       `{"error":"not found"}`,
		"/nowhere":       `{"error":"not found"}`,
		"/live/sessions": "Method Not Allowed",
	} {
		res, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %.200s, want %q", path, res.StatusCode, body, want)
		}
	}
}

// taken returns an address on which something listens until the test ends.
func taken(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}

// TestNoRedis: the demo starts without its Redis, and the log says that nothing is counted yet.
func TestNoRedis(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var log bytes.Buffer
	// The first line is enough: the demo ends with it.
	stderr := writerFunc(func(p []byte) (int, error) { stop(); return log.Write(p) })
	if err := run(ctx, []string{"-addr", "127.0.0.1:0", "-redis", "redis://127.0.0.1:1"}, io.Discard, stderr); err != nil {
		t.Error(err)
	}
	if first, _, _ := strings.Cut(log.String(), "\n"); !strings.Contains(first, "Redis is not fit for counting") {
		t.Errorf("the log begins with %q", first)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestBadFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-redis", "localhost:6379"}, "-redis: sash: redisstore.Open: the URL is not"},
		{[]string{"-addr", taken(t)}, "make demo ADDR="},
		{[]string{"-addr", "127.0.0.1:none"}, "none"},
		{[]string{"-nothing"}, "nothing"},
		{[]string{"serve"}, `"serve"`},
	} {
		err := run(t.Context(), c.args, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v does not name %s", c.args, err, c.want)
		}
	}
	var help bytes.Buffer
	err := run(t.Context(), []string{"-h"}, io.Discard, &help)
	if err != nil || !strings.Contains(help.String(), "-redis URL") {
		t.Errorf("-h: %v, %q", err, &help)
	}
	if got := where("redis://user:secret@h:1/0"); got != "in redis://user:xxxxx@h:1/0" {
		t.Errorf("the demo shows %q", got)
	}
}
