package redistest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
	script := "#!/bin/sh\n[ $1 = --version ] && echo Other v=99.1 && exit\nexec " + path + ` "$@" --maxmemory 7mb`
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
