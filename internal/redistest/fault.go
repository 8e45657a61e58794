package redistest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Fault is a fault of a server. Begin starts it and returns a function that ends it.
type Fault struct {
	Begin func(tb testing.TB, s *Server) (end func())
}

// The faults of a server. Held answers no command that writes, Replica and Full refuse one, Forgets loses the scripts.
var (
	Refused = Fault{func(_ testing.TB, s *Server) func() { s.Kill(); return s.Restart }} // SIGKILL
	Silent  = Fault{func(_ testing.TB, s *Server) func() { s.Pause(); return s.Resume }} // SIGSTOP
	Held    = byCommands("CLIENT PAUSE 600000 WRITE", "CLIENT UNPAUSE")
	Replica = byCommands("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE")
	Full    = byCommands("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0")
	Cut     = repeat("CLIENT KILL TYPE normal SKIPME yes")
	Forgets = repeat("SCRIPT FLUSH")
	Busy    = Fault{busy}
)

// Faults holds all faults.
var Faults = []Fault{Refused, Silent, Held, Replica, Full, Cut, Forgets, Busy}

// runCommand runs an administration command.
func (s *Server) runCommand(command string) error {
	var words []any
	for word := range strings.FieldsSeq(command) {
		words = append(words, word)
	}
	return s.ask(words...).Err()
}

// retryCommand runs a command until the server, which may be slow, accepts it.
func (s *Server) retryCommand(tb testing.TB, command string) {
	tb.Helper()
	WaitFor(tb, command, func() error { return s.runCommand(command) })
}

// byCommands returns a fault that starts and ends by the given commands.
func byCommands(begin, end string) Fault {
	return Fault{func(tb testing.TB, s *Server) func() {
		s.retryCommand(tb, begin)
		return func() { s.retryCommand(tb, end) }
	}}
}

// repeat returns a fault that runs a command every 20 ms.
func repeat(command string) Fault {
	return Fault{func(_ testing.TB, s *Server) func() {
		done := make(chan struct{})
		var group sync.WaitGroup
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(20 * time.Millisecond):
					_ = s.runCommand(command) // a server that is away has no connections, and no scripts
				}
			}
		})
		return func() { close(done); group.Wait() }
	}}
}

// busy keeps the server busy by a script that does not end.
func busy(tb testing.TB, s *Server) (end func()) {
	s.retryCommand(tb, "CONFIG SET busy-reply-threshold 20")
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: -1, MaxRetries: -1})
	ended := make(chan error, 1)
	go func() { ended <- client.Do(context.Background(), "EVAL", "while true do end", 0).Err() }()
	WaitFor(tb, "the server to be busy", func() error {
		select {
		case err := <-ended:
			tb.Fatalf("a script that does not end: %v", err)
		default:
		}
		if err := s.runCommand("PING"); err == nil || !strings.Contains(err.Error(), "BUSY") {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
	return func() {
		WaitFor(tb, "the script to end", func() error {
			_ = s.runCommand("SCRIPT KILL")
			select {
			case <-ended:
				return client.Close()
			default:
				return fmt.Errorf("it goes on")
			}
		})
	}
}
