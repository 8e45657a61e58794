// Package redistest runs real redis-server processes for tests: a single
// server, a cluster, a master with replicas under Sentinel, and ways between
// regions. Each server is private to the test that started it, keeps nothing on
// disk, listens on a free port of 127.0.0.1, and is ended by the test's cleanup.
// A test can pause, kill and restart a server.
//
// The package runs redis-server of the PATH, or the server that the environment
// names: SASH_REDIS=/path/of/valkey-server. It must take the options of Redis 7. A
// test that fails says which version it ran on. Without a server the test fails. It
// is never skipped, because a suite that skips proves nothing.
package redistest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is one redis-server process. Its methods are safe for concurrent use. A
// method that cannot do its work fails the test that started the server.
type Server struct {
	tb   testing.TB
	dir  string // working directory; holds the log
	port int
	args []string // of redis-server; the same at every start
	id   string   // the node's ID in a cluster

	mu     sync.Mutex // guards the fields below
	proc   *process   // nil before the first start
	paused bool
}

// process is one run of redis-server.
type process struct {
	*exec.Cmd
	exited chan struct{} // closed when the process has been waited for
}

// running reports whether the process has not ended.
func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Start starts a single server and waits until it answers. args are options of
// redis-server, such as "--maxmemory", "10mb". Options about the address and
// about what is kept on disk have no effect.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	s, err := start(tb, func(string, int) ([]string, error) { return args, nil })
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// Addr returns the address that the server listens on, "127.0.0.1:port".
func (s *Server) Addr() string { return net.JoinHostPort(host, strconv.Itoa(s.port)) }

// URL returns the address as go-redis parses it, "redis://127.0.0.1:port/0".
func (s *Server) URL() string { return "redis://" + s.Addr() + "/0" }

// Client returns a client with nothing set but its address, closed by tb's
// cleanup.
func (s *Server) Client(tb testing.TB) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.Addr()})
	tb.Cleanup(func() { c.Close() })
	return c
}

// Pause stops the process (SIGSTOP) without ending it: connections stay open, the
// kernel accepts new ones, and the server answers no command. Pause returns when
// the process has stopped.
func (s *Server) Pause() {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.signal(sigStop); err != nil {
		s.tb.Fatalf("redistest: pausing %s: %v", s.Addr(), err)
	}
	s.paused = true
	// A signal takes effect shortly after it was sent.
	pid := s.proc.Process.Pid
	WaitFor(s.tb, s.Addr()+" to stop", func() error {
		if !stopped(pid) {
			return fmt.Errorf("process %d still runs", pid)
		}
		return nil
	})
}

// Resume lets a paused process go on (SIGCONT). The process serves the commands
// that clients sent during the pause.
func (s *Server) Resume() {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.signal(sigCont); err != nil {
		s.tb.Fatalf("redistest: resuming %s: %v", s.Addr(), err)
	}
	s.paused = false
}

// Kill ends the process (SIGKILL), paused or not, and waits until it is gone.
// The server's data is lost. Killing a dead server does nothing.
func (s *Server) Kill() {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
}

// Restart starts the server again, empty, at the same address, and waits until
// it answers. A server that still runs is killed first. A cluster node and a
// sentinel keep their ID and their knowledge of the other nodes.
func (s *Server) Restart() {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
	// While the server was down, another process may have taken its port.
	WaitFor(s.tb, s.Addr()+" to be free again", func() error {
		err := s.run()
		if err != nil && !errors.Is(err, errPortTaken) {
			s.tb.Fatal(err)
		}
		return err
	})
}

// answers reports whether the server can answer: it runs and is not paused.
func (s *Server) answers() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc != nil && s.proc.running() && !s.paused
}

// admin returns a client for set-up work. The caller closes the client after the
// work, so that a test finds only its own connections on the server.
func (s *Server) admin() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:            s.Addr(),
		Protocol:        2, // flat replies, no push messages
		DisableIdentity: true,
		DialTimeout:     time.Second,
		ReadTimeout:     time.Second,
		MaxRetries:      -1, // a caller that waits for a condition asks again itself
	})
}

// ask runs a command for set-up work.
func (s *Server) ask(words ...any) *redis.Cmd {
	admin := s.admin()
	defer admin.Close()
	return admin.Do(ctx, words...)
}

const (
	host        = "127.0.0.1"
	waitAtMost  = time.Minute // as long as a busy machine may take
	waitBetween = 10 * time.Millisecond
)

// WaitFor waits until condition returns nil. After a minute WaitFor fails the test
// with the last error of condition. The message contains what, such as "the
// cluster to be up".
func WaitFor(tb testing.TB, what string, condition func() error) {
	tb.Helper()
	if err := waitFor(what, condition); err != nil {
		tb.Fatal(err)
	}
}

// waitFor is WaitFor for goroutines that must not end the test: it returns the
// error.
func waitFor(what string, condition func() error) error {
	deadline := time.Now().Add(waitAtMost)
	for {
		err := condition()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("redistest: waited %v for %s: %w", waitAtMost, what, err)
		}
		time.Sleep(waitBetween)
	}
}

// errPortTaken means that another process took the port first.
var errPortTaken = errors.New("the port is taken")

// options returns the arguments of a server that will run in dir at port.
type options func(dir string, port int) ([]string, error)

// start starts a server on some free port. It may be called from any goroutine.
func start(tb testing.TB, opts options) (*Server, error) {
	const attempts = 20
	var err error
	for range attempts {
		// The directory's cleanup is registered first, so it runs last.
		s := &Server{tb: tb, dir: tb.TempDir()}
		if s.port, err = FreePort(); err != nil {
			return nil, err
		}
		if s.args, err = opts(s.dir, s.port); err != nil {
			return nil, err
		}
		s.args = append(slices.Clone(s.args),
			"--port", strconv.Itoa(s.port), "--bind", host, "--dir", s.dir,
			"--daemonize", "no", "--logfile", "", "--loglevel", "notice")
		if !slices.Contains(s.args, "--sentinel") {
			s.args = append(s.args, "--save", "", "--appendonly", "no",
				// The master starts a transfer at once, and does not wait for other
				// replicas to share it.
				"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0",
				"--repl-ping-replica-period", "1")
		}
		tb.Cleanup(func() {
			if tb.Failed() {
				tb.Logf("redistest: %s ran %s", s.Addr(), version())
			}
			s.Kill()
		})
		s.mu.Lock()
		err = s.run()
		s.mu.Unlock()
		if !errors.Is(err, errPortTaken) {
			return s, err
		}
	}
	return nil, err
}

// program returns the path of the server.
func program() (string, error) {
	path, err := exec.LookPath(cmp.Or(os.Getenv("SASH_REDIS"), "redis-server"))
	if err != nil {
		return "", fmt.Errorf("redistest: %w: install Debian's package redis-server, or run make test, which does, "+
			"or give the path of a server in SASH_REDIS", err)
	}
	return path, nil
}

// version returns the server's description of its version.
func version() string {
	path, err := program()
	if err != nil {
		return err.Error()
	}
	said, err := exec.Command(path, "--version").CombinedOutput()
	if err != nil {
		said = fmt.Append(said, err)
	}
	return path + ", " + strings.TrimSpace(string(said))
}

// run starts the process and waits until it answers. s.mu must be held.
func (s *Server) run() error {
	path, err := program()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	defer log.Close() // the process has its own descriptor

	p := &process{Cmd: exec.Command(path, s.args...), exited: make(chan struct{})}
	p.Dir, p.Stdout, p.Stderr = s.dir, log, log
	if err := Launch(p.Cmd); err != nil {
		return fmt.Errorf("redistest: starting redis-server: %w", err)
	}
	go func() { p.Wait(); close(p.exited) }()
	s.proc, s.paused = p, false
	return s.waitUntilReady(log.Name())
}

// waitUntilReady waits until the process that has just started answers. s.mu must be held.
func (s *Server) waitUntilReady(log string) error {
	for deadline := time.Now().Add(waitAtMost); ; time.Sleep(waitBetween) {
		dead := !s.proc.running() // asked before the log is read, so that the log is whole
		text, err := os.ReadFile(log)
		if err != nil {
			return fmt.Errorf("redistest: %w", err)
		}
		says := func(words string) bool { return bytes.Contains(text, []byte(words)) }
		switch {
		case dead && says("Address already in use"):
			return fmt.Errorf("redistest: %s: %w", s.Addr(), errPortTaken)
		case dead:
			return fmt.Errorf("redistest: redis-server %s ended at once (%v); its log:\n%s",
				strings.Join(s.args, " "), s.proc.ProcessState, text)
		// An answer may come from another process at this address. The log comes from this process only.
		case (says("Ready to accept connections") || says("Sentinel ID is")) && s.pong():
			return nil
		case time.Now().After(deadline):
			s.kill()
			return fmt.Errorf("redistest: redis-server %s did not answer for %v; its log:\n%s",
				strings.Join(s.args, " "), waitAtMost, text)
		}
	}
}

// pong reports whether the server answers, if by asking for a password.
func (s *Server) pong() bool {
	err := s.ask("PING").Err()
	return err == nil || errors.As(err, new(redis.Error))
}

// find returns the first server that is returns true for, or nil.
func find(servers []*Server, is func(*Server) bool) *Server {
	if i := slices.IndexFunc(servers, is); i >= 0 {
		return servers[i]
	}
	return nil
}

// signal sends sig to the process. s.mu must be held.
func (s *Server) signal(sig os.Signal) error {
	if s.proc == nil || !s.proc.running() {
		return os.ErrProcessDone
	}
	return s.proc.Process.Signal(sig)
}

// kill ends the process and waits for its end. s.mu must be held.
func (s *Server) kill() {
	if s.proc == nil {
		return
	}
	if err := s.proc.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.tb.Errorf("redistest: killing %s: %v", s.Addr(), err)
		return
	}
	<-s.proc.exited
	s.paused = false
}
