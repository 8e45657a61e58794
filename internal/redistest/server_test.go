package redistest

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestServer(t *testing.T) {
	t.Parallel()
	s := Start(t, "--maxmemory", "10mb")
	client := s.Client(t)
	if o, err := redis.ParseURL(s.URL()); err != nil || o.Addr != s.Addr() {
		t.Errorf("the URL is %s, the address %s: %v", s.URL(), s.Addr(), err)
	}
	if got := client.ConfigGet(ctx, "maxmemory").Val()["maxmemory"]; got != "10485760" {
		t.Errorf("maxmemory is %s", got)
	}
	if err := client.Set(ctx, "key", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}

	s.Pause()
	impatient := redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: 50 * time.Millisecond, MaxRetries: -1})
	defer impatient.Close()
	var timeout net.Error
	if err := impatient.Get(ctx, "key").Err(); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("a paused server answered %v", err)
	}
	s.Resume()
	if got, err := client.Get(ctx, "key").Result(); got != "value" {
		t.Errorf("after the pause: %q, %v", got, err)
	}

	for _, pause := range []bool{false, true} {
		if pause {
			s.Pause()
		}
		s.Kill()
		s.Kill() // of a dead server: nothing
		if c, err := net.Dial("tcp", s.Addr()); err == nil {
			c.Close()
			t.Error("a killed server listens")
		}
		s.Restart()
		if got, err := client.Get(ctx, "key").Result(); err != redis.Nil {
			t.Errorf("after the restart: %q, %v", got, err)
		}
	}
	s.Restart() // of a running server
	if err := client.Ping(ctx).Err(); err != nil {
		t.Error(err)
	}
}

func TestNothingIsLeftAfterCleanup(t *testing.T) {
	var servers []*Server
	t.Run("test", func(t *testing.T) {
		for range 3 {
			servers = append(servers, Start(t))
		}
		servers[1].Pause()
		servers[2].Kill()
	})
	for i, s := range servers {
		if s.proc.running() || s.proc.ProcessState == nil {
			t.Errorf("server %d still runs", i)
		}
		if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("server %d left its directory: %v", i, err)
		}
	}
}

func TestWhatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	_, err := start(t, func(string, int) ([]string, error) { return []string{"--maxmemory", "plenty"}, nil })
	if err == nil || !strings.Contains(err.Error(), "argument must be a memory value") {
		t.Errorf("the server's own words are missing: %v", err)
	}
}

func TestPortThatIsTaken(t *testing.T) {
	t.Parallel()
	first := Start(t)
	attempt := 0
	s, err := start(t, func(_ string, port int) ([]string, error) {
		attempt++
		if attempt == 1 { // as if another process had taken the port
			return []string{"--cluster-enabled", "yes", "--cluster-port", first.Addr()[len(host)+1:]}, nil
		}
		return nil, nil
	})
	if err != nil || attempt != 2 {
		t.Fatalf("%d attempts: %v", attempt, err)
	}
	if err := s.Client(t).Ping(ctx).Err(); err != nil {
		t.Error(err)
	}
}

// TestOtherServer: SASH_REDIS names the server that runs, and that failures tell of.
func TestOtherServer(t *testing.T) {
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	script := "#!/bin/sh\n[ $1 = --version ] && echo Other server v=99.1 && exit\nexec " + path + ` "$@" --maxmemory 7mb`
	if err := os.WriteFile(other, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SASH_REDIS", other)
	if got := Start(t).Client(t).ConfigGet(ctx, "maxmemory").Val()["maxmemory"]; got != "7340032" {
		t.Errorf("maxmemory is %q", got)
	}
	if got := version(); !strings.Contains(got, other) || !strings.Contains(got, "v=99.1") {
		t.Errorf("the version is %q", got)
	}
}

func TestMissingServer(t *testing.T) {
	t.Setenv("SASH_REDIS", "")
	t.Setenv("PATH", t.TempDir())
	_, err := start(t, func(string, int) ([]string, error) { return nil, nil })
	if err == nil || !strings.Contains(err.Error(), "install") {
		t.Errorf("got %v", err)
	}
}

func TestAppend(t *testing.T) {
	t.Parallel()
	s := Start(t)
	file := s.Append(t)
	if err := s.Client(t).Set(ctx, "key", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "\r\nkey\r\n$5\r\nvalue\r\n") {
		t.Errorf("the file holds %q, %v", text, err)
	}
}
