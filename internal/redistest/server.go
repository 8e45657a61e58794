// Package redistest runs real redis-server processes for tests: a single
// server, a cluster, and a master with replicas under Sentinel. Each is private
// to the test that started it, keeps nothing on disk, listens on free ports of
// 127.0.0.1, and is ended by the test's cleanup. They can be paused, killed and
// restarted.
//
// It needs Redis 7. Where redis-server is missing the test fails; it is never
// skipped, because a suite that skips proves nothing.
package redistest

import (
	"bufio"
	"bytes"
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

// Server is one redis-server process. Its methods are safe for concurrent use.
// They fail the test that started the server when they cannot do their work.
type Server struct {
	tb   testing.TB
	dir  string // working directory; holds the log
	port int
	args []string // of redis-server; the same at every start
	id   string   // the node's ID, in a cluster

	mu     sync.Mutex
	proc   *process // nil until started
	paused bool
}

// process is one run of redis-server.
type process struct {
	*exec.Cmd
	exited chan struct{} // closed when the process has been waited for
}

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Start starts a single server and waits until it answers. args are options of
// redis-server, such as "--maxmemory", "10mb"; those that would change where it
// listens or what it keeps on disk have no effect.
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

// Pause stops the process (SIGSTOP) without ending it: connections stay open,
// new ones are accepted by the kernel, and nothing answers. It returns when the
// process has stopped.
func (s *Server) Pause() {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.signal(sigStop); err != nil {
		s.tb.Fatalf("redistest: pausing %s: %v", s.Addr(), err)
	}
	s.paused = true
	// A signal takes effect a little after it was sent.
	pid := s.proc.Process.Pid
	WaitFor(s.tb, s.Addr()+" to stop", func() error {
		if !stopped(pid) {
			return fmt.Errorf("process %d still runs", pid)
		}
		return nil
	})
}

// Resume lets a paused process go on (SIGCONT). It then serves what clients
// sent in the meantime.
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
// Its data is lost. Killing a dead server does nothing.
func (s *Server) Kill() {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
}

// Restart starts the server again, empty, at the same address, and waits until
// it answers. A server that still runs is killed first. A cluster node and a
// sentinel keep their place: they know who they are and whom they knew.
func (s *Server) Restart() {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
	// While the server was down its port was anybody's.
	WaitFor(s.tb, s.Addr()+" to be free again", func() error {
		err := s.run()
		if err != nil && !errors.Is(err, errPortTaken) {
			s.tb.Fatal(err)
		}
		return err
	})
}

// answers says whether the server could answer: it runs and is not paused.
func (s *Server) answers() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc != nil && s.proc.running() && !s.paused
}

// admin returns a client for set-up work, to be closed after it, so that a test
// finds no connections on the server but its own.
func (s *Server) admin() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:            s.Addr(),
		Protocol:        2, // flat replies, no push messages
		DisableIdentity: true,
		DialTimeout:     time.Second,
		ReadTimeout:     time.Second,
		MaxRetries:      -1, // who waits for a condition asks again anyway
	})
}

const (
	host        = "127.0.0.1"
	waitAtMost  = 20 * time.Second // far more than needed, for busy machines
	waitBetween = 10 * time.Millisecond
)

// WaitFor waits until condition returns nil, and fails the test with its last
// error if that takes longer than 20 s.
func WaitFor(tb testing.TB, what string, condition func() error) {
	tb.Helper()
	if err := waitFor(what, condition); err != nil {
		tb.Fatal(err)
	}
}

// waitFor is WaitFor for goroutines that may not end the test.
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

// errPortTaken: somebody else came first.
var errPortTaken = errors.New("the port is taken")

// options returns the arguments of a server that is to run in dir at port.
type options func(dir string, port int) ([]string, error)

// start starts a server on some free port. It may be called from any goroutine.
func start(tb testing.TB, opts options) (*Server, error) {
	const attempts = 20
	var err error
	for range attempts {
		// The directory's cleanup is registered first and so runs last.
		s := &Server{tb: tb, dir: tb.TempDir()}
		if s.port, err = freePort(); err != nil {
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
				// A replica need not wait for others to share a transfer with.
				"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0",
				"--repl-ping-replica-period", "1")
		}
		tb.Cleanup(s.Kill)
		s.mu.Lock()
		err = s.run()
		s.mu.Unlock()
		if !errors.Is(err, errPortTaken) {
			return s, err
		}
	}
	return nil, err
}

// run starts the process and waits until it answers. s.mu is held.
func (s *Server) run() error {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return fmt.Errorf("redistest: %w: install Debian's package redis-server, or run make test, which does", err)
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	defer log.Close() // the process has its own
	earlier, err := log.Stat()
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}

	p := &process{Cmd: exec.Command(path, s.args...), exited: make(chan struct{})}
	p.Dir, p.Stdout, p.Stderr = s.dir, log, log
	if err := launch(p.Cmd); err != nil {
		return fmt.Errorf("redistest: starting redis-server: %w", err)
	}
	go func() { p.Wait(); close(p.exited) }()
	s.proc, s.paused = p, false

	for deadline := time.Now().Add(waitAtMost); ; time.Sleep(waitBetween) {
		dead := !p.running() // before the log is read, so that the log is whole
		text, err := os.ReadFile(log.Name())
		if err != nil {
			return fmt.Errorf("redistest: %w", err)
		}
		text = text[earlier.Size():] // what this run wrote
		switch {
		case dead && bytes.Contains(text, []byte("Address already in use")):
			return fmt.Errorf("redistest: %s: %w", s.Addr(), errPortTaken)
		case dead:
			return fmt.Errorf("redistest: redis-server %s ended at once (%v); its log:\n%s",
				strings.Join(s.args, " "), p.ProcessState, text)
		// Whether another process answers at this address cannot be told from
		// the answer; the log is this one's.
		case ready(text) && s.ping() == nil:
			return nil
		case time.Now().After(deadline):
			s.kill()
			return fmt.Errorf("redistest: redis-server %s did not answer for %v; its log:\n%s",
				strings.Join(s.args, " "), waitAtMost, text)
		}
	}
}

// ready says whether a log tells that the server listens.
func ready(log []byte) bool {
	return bytes.Contains(log, []byte("Ready to accept connections")) ||
		bytes.Contains(log, []byte("Sentinel ID is"))
}

// ping waits a little for an answer. An error reply is one too: a server that
// asks for a password is up.
func (s *Server) ping() error {
	c, err := net.DialTimeout("tcp", s.Addr(), time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	_, err = bufio.NewReader(c).ReadString('\n')
	return err
}

// signal sends sig. s.mu is held.
func (s *Server) signal(sig os.Signal) error {
	if s.proc == nil || !s.proc.running() {
		return os.ErrProcessDone
	}
	return s.proc.Process.Signal(sig)
}

// kill ends the process and waits for its end. s.mu is held.
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
