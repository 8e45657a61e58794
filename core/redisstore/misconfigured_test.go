package redisstore_test

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// lockedBuffer is a buffer that may be read while it is written.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// take returns the lines of the limiter's since the last call.
func (b *lockedBuffer) take() (lines []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.text.String()) {
		if strings.Contains(line, `msg="sash: `) {
			lines = append(lines, line)
		}
	}
	b.text.Reset()
	return lines
}

// defaultLog returns what is written to slog.Default until the test ends.
func defaultLog(t *testing.T) *lockedBuffer {
	log := new(lockedBuffer)
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return log
}

// closedPort returns an address at which nothing listens.
func closedPort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestMisconfigured: with a mistake in the URL of Redis requests are served, as the
// default policy has it, and one line of the program's log says so, with the cause and
// what to do about it.
func TestMisconfigured(t *testing.T) {
	open := redistest.Start(t).Addr()
	secret := redistest.Start(t, "--requirepass", "right").Addr()
	full := redistest.Start(t, "--maxmemory", "1").Addr()
	replica := redistest.Start(t, "--replicaof", "127.0.0.1 1").Addr()
	alone := redistest.Start(t, "--min-replicas-to-write", "1").Addr()
	acl := redistest.Start(t).Addr()
	for _, user := range []string{"api on >pw ~* -@all", "script on >pw ~* +@all -rpush -set"} {
		args := []any{"ACL", "SETUSER"}
		for word := range strings.FieldsSeq(user) {
			args = append(args, word)
		}
		if err := admin(t, acl).Do(ctx, args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, url string
		timeout   time.Duration
		cause     string
		remedy    string
	}{
		{"wrong password", "redis://:wrong@" + secret, patient, "WRONGPASS", "refuses the user name or the password"},
		{"no password", "redis://" + secret, patient, "NOAUTH", "set Password"},
		{"wrong port", "redis://" + closedPort(t), patient, "connection refused", "is the address right"},
		{"TLS on a plain server", "rediss://" + open, core.DefaultTimeout, "", "TLS"},
		{"database 99", "redis://" + open + "/99", patient, "DB index is out of range", "the server has no such database"},
		{"a full server", "redis://" + full, patient, "OOM", "raise maxmemory"},
		{"a replica", "redis://" + replica, patient, "READONLY", "give the master's address"},
		{"no replicas", "redis://" + alone, patient, "NOREPLICAS", "min-replicas-to-write"},
		{"too few rights", "redis://api:pw@" + acl, patient, "NOPERM", "the ACL user may not"},
		{"too few rights in a script", "redis://script:pw@" + acl, patient,
			"script", "the ACL user may not"}, // TestAnswers has the words of all versions
	} {
		t.Run(c.name, func(t *testing.T) {
			log := defaultLog(t)
			store, err := redisstore.Open(c.url)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			l := limiter(t, core.Config{
				Name: "api", Store: store, Limits: []core.Limit{core.PerMinute(1)}, Timeout: c.timeout,
			})
			served := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
			h := nethttp.Middleware(l, keyfuncs.RemoteIP)(served)
			for range 20 {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
				if w.Code != http.StatusOK {
					t.Errorf("answered %d", w.Code)
				}
			}
			lines := log.take()
			if len(lines) != 1 {
				t.Fatalf("got %d lines, want 1: %s", len(lines), lines)
			}
			t.Log(lines[0])
			for _, text := range []string{"level=WARN", "requests are served, uncounted", "limiter=api", c.cause, c.remedy} {
				if !strings.Contains(lines[0], text) {
					t.Errorf("the line does not say %q: %s", text, lines[0])
				}
			}
			if strings.Contains(lines[0], "wrong@") || strings.Count(lines[0], "sash: ") != 1 {
				t.Errorf("the line has the password, or says sash: more than once: %s", lines[0])
			}
		})
	}
}
