package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
)

// serving starts the demo, which runs until the test ends, and returns what it says when it listens, and its URL.
func serving(t *testing.T) (welcome, url string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, "127.0.0.1:0", "", in, slog.New(slog.DiscardHandler))
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
		"/nowhere":       "404 page not found",
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

// TestBadFlags: a wrong flag is an error that says what to write.
func TestBadFlags(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct{ addr, redis, want string }{
		{"127.0.0.1:0", "localhost:6379", "-redis: sash: redisstore.Open: the URL is not"},
		{taken.Addr().String(), "", "make demo ADDR="},
		{"127.0.0.1:none", "", "none"},
	} {
		err := run(t.Context(), c.addr, c.redis, io.Discard, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q, %q: error %v does not name %s", c.addr, c.redis, err, c.want)
		}
	}
	if got := where("redis://user:secret@h:1/0"); got != "in redis://user:xxxxx@h:1/0" {
		t.Errorf("the demo shows %q", got)
	}
}
