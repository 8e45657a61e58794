package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// TestIsFailure: an error speaks against a server if there was no answer, or if the answer is that the server cannot
// decide for now (TestAnswers). An error that is the caller's doing says nothing.
func TestIsFailure(t *testing.T) {
	for err, want := range map[error]bool{
		nil:                                   false,
		ErrLate:                               true,
		io.EOF:                                true,
		&net.OpError{Op: "dial", Err: io.EOF}: true,
		fmt.Errorf("wrapped: %w", replyError("LOADING")): true,
		fmt.Errorf("wrapped: %w", replyError("OOM")):     false,
		redis.Nil:                             false,
		redis.ErrClosed:                       false,
		fmt.Errorf("%w: %w", ErrLate, io.EOF): true,
	} {
		if got := IsFailure(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}

// TestAnswers: whatever server answers an error, and in whichever words, it is known what an operator can do, whether
// it speaks against the server, and whether requests that came together may be sent again. The texts are of servers
// that were run (Redis 5.0, 7.0, 7.2 and 8, Valkey 8 and 9), or are in the sources or documents of the others.
func TestAnswers(t *testing.T) {
	const (
		answer   = ""         // the server is there, and waiting for it costs nothing
		failure  = "failure"  // opens the breaker
		separate = "separate" // nothing has run: each request goes again alone
	)
	const ( // of hints
		none, rights          = "", "the ACL user may not"
		master, replicas      = "give the master's address", "min-replicas-to-write"
		moved                 = "redis.NewClusterClient"
		full, password, wrong = "raise maxmemory", "asks for a password", "the user name or the password"
	)
	const (
		old1 = "@user_script: 204: "                                         // of pcall in Redis 5.0 to 6.2, KeyDB 6.3
		old2 = "ERR Error running script (call to f_a1): @user_script:204: " // of an error that a script raises there
		new1 = " script: a1b2c3, on @user_script:204."                       // from Redis 7.0 on, and of Valkey
	)
	for _, c := range []struct{ text, hint, verdict string }{
		// Redis 7.0 and later, Valkey
		{"READONLY You can't write against a read only replica.", master, failure},
		{"READONLY You can't write against a read only replica." + new1, master, failure},
		{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", none, failure},
		{"LOADING Redis is loading the dataset in memory", none, failure},
		{"LOADING Valkey is loading the dataset in memory", none, failure},
		{"CLUSTERDOWN Hash slot not served", none, answer}, // says nothing of the node, and so the next three
		{"MOVED 3999 127.0.0.1:6381", moved, answer},
		{"ASK 3999 127.0.0.1:6381", none, answer},
		{"TRYAGAIN Multiple keys request during rehashing of slot", none, answer},
		{"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist." + new1,
			none, failure},
		{"NOREPLICAS Not enough good replicas to write." + new1, replicas, failure},
		{"OOM command not allowed when used memory > 'maxmemory'." + new1, full, answer},
		{"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", none, answer},
		{"NOSCRIPT No matching script. Please use EVAL.", none, answer},
		{"NOAUTH HELLO must be called with the client already authenticated", password, answer},
		{"ERR Protocol error: unauthenticated multibulk length", password, answer},
		{"WRONGPASS invalid username-password pair or user is disabled.", wrong, answer},
		{"ERR AUTH <password> called without any password configured for the default user.", wrong, answer},
		{"ERR DB index is out of range", none, answer},
		{"CROSSSLOT Keys in request don't hash to the same slot", none, separate},

		// A missing right: to the script, to a key, and within the script, where others may have been counted before
		{"NOPERM User api has no permissions to run the 'evalsha' command", rights, separate},
		{"NOPERM No permissions to access a key", rights, separate},
		{"NOPERM this user has no permissions to access one of the keys used as arguments", rights, separate}, // 6.0
		{old1 + "-NOPERM The user executing the script can't run this command or subcommand", rights, answer}, // 6.2
		{"ERR The user executing the script can't run this command or subcommand" + new1, rights, answer},     // 7.0
		{"ERR ACL failure in script: User api has no permissions to run the 'time' command" + new1, rights, answer},
		{"NOPERM ACL failure in script: User u has no permissions to run the 'ltrim' command", rights, answer},

		// Redis 5.0 to 6.2, KeyDB
		{"ERR invalid password", wrong, answer},
		{"ERR Client sent AUTH, but no password is set", wrong, answer},
		{old1 + "-READONLY You can't write against a read only replica.", master, failure},
		{old2 + old1 + "-READONLY You can't write against a read only replica.", master, failure},
		{old1 + "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", none, failure},
		{old1 + "-MISCONF Redis is configured to save RDB snapshots, but it is currently not able to", none, failure},
		{old1 + "-NOREPLICAS Not enough good replicas to write.", replicas, failure},
		{old1 + "-OOM command not allowed when used memory > 'maxmemory'.", full, answer},

		// Tair: its proxy has no code
		{"ERR eval/evalsha command keys must be in same slot", none, separate},
		{"ERR command keys must in same slot", none, separate},
		{"ERR bad lua script for redis cluster, all the keys that the script uses should be passed using " +
			"the KEYS array", none, answer},

		// Kvrocks: ERR before the code
		{"ERR READONLY You can't write against a read only slave.", master, failure},
		{"ERR NOSCRIPT No matching script. Please use EVAL", none, answer},
		{"ERR CROSSSLOT Attempted to access keys that don't hash to the same slot", none, separate},

		// Dragonfly, Garnet
		{"ERR Error running script (call to a1): @user_script:2: script tried accessing undeclared key", none, answer},
		{"ERR Out of memory", full, answer},
		{"LOADING Dragonfly is loading the dataset in memory", none, failure},
		{"ERR unknown command", none, answer},

		// A code that stands somewhere else is none.
		{"ERR no READONLY here, nor OOM or NOAUTH", none, answer},
	} {
		err := error(replyError(c.text))
		verdict := answer
		switch {
		case IsFailure(err):
			verdict = failure
		case IsBatchError(err):
			verdict = separate
		}
		if verdict != c.verdict {
			t.Errorf("%s\n is judged %q, want %q", c.text, verdict, c.verdict)
		}
		for _, err := range []error{err, errors.New(c.text)} { // as the answer to all requests, and to one of them
			if got := Hint(err); !strings.Contains(got, c.hint) || (got == "") != (c.hint == "") {
				t.Errorf("%s\n has the hint %q, want %q", c.text, got, c.hint)
			}
		}
	}
}

type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}
