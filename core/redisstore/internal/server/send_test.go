package server

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
)

// scripted is a client whose server gives these replies, the last again and again. A reply is a value, an error, what
// the client panics with, or how long the server is silent.
type scripted struct {
	redis.UniversalClient
	t       *testing.T
	replies []any
	sent    []string // the names of the commands
}

type panics string

func (s *scripted) Process(ctx context.Context, cmd redis.Cmder) error {
	if !cmd.NoRetry() {
		s.t.Errorf("%s may be sent twice", cmd.Name())
	}
	s.sent = append(s.sent, cmd.Name())
	reply := s.replies[min(len(s.sent), len(s.replies))-1]
	switch r := reply.(type) {
	case panics:
		panic(string(r))
	case error:
		cmd.SetErr(r)
	case time.Duration:
		time.Sleep(r) // a client need not heed ctx
		cmd.SetErr(context.DeadlineExceeded)
	default:
		cmd.(*once).SetVal(r.(string))
	}
	return cmd.Err()
}

// newScripted returns a client of a server that gives these replies.
func newScripted(t *testing.T, replies ...any) (*scripted, *Client) {
	s := &scripted{t: t, replies: replies}
	return s, New(s, nil)
}

// TestSending: a script goes out by its hash, once more by its source if the server does not know it, and again after
// pauses while a slot moves, as long as there is time.
func TestSending(t *testing.T) {
	const ms = time.Millisecond
	tryAgain := replyError("TRYAGAIN Multiple keys request during rehashing of slot")
	for name, test := range map[string]struct {
		replies []any
		sent    string
		took    time.Duration
		err     string
	}{
		"known":          {replies: []any{"text"}, sent: "evalsha"},
		"not known":      {replies: []any{replyError("NOSCRIPT No matching script."), "text"}, sent: "evalsha eval"},
		"never known":    {replies: []any{replyError("NOSCRIPT")}, sent: "evalsha eval", err: "NOSCRIPT"},
		"another error":  {replies: []any{replyError("OOM")}, sent: "evalsha", err: "OOM"},
		"cannot be read": {replies: []any{panics("length")}, sent: "evalsha", err: "cannot read the reply: length"},
		"a slot moves": {
			replies: []any{tryAgain, tryAgain, tryAgain, "text"}, sent: strings.Repeat("evalsha ", 4), took: 7 * ms,
		},
		"moves to a server that does not know the script": {
			replies: []any{tryAgain, replyError("NOSCRIPT"), tryAgain, "text"}, sent: "evalsha evalsha eval eval", took: 3 * ms,
		},
		"moves for long": {replies: []any{tryAgain}, sent: strings.Repeat("evalsha ", 7), took: 63 * ms, err: "TRYAGAIN"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := newScripted(t, test.replies...)
				ctx, cancel := context.WithTimeout(t.Context(), core.DefaultTimeout)
				defer cancel()
				start := time.Now()
				text, err := c.Ask(ctx, []any{"evalsha", "hash", "1", "key"}, "source")
				if test.err == "" && (err != nil || text != "text") ||
					test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
					t.Errorf("got %q, %v", text, err)
				}
				if sent := strings.Join(s.sent, " "); sent != strings.TrimSpace(test.sent) || time.Since(start) != test.took {
					t.Errorf("sent %s in %v, want %s in %v", sent, time.Since(start), test.sent, test.took)
				}
				if len(c.calls) > 0 {
					t.Errorf("%d calls are under way", len(c.calls))
				}
			})
		})
	}
}

// TestPausesEnd: a caller that leaves while a slot moves ends the pauses.
func TestPausesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := newScripted(t, replyError("TRYAGAIN"))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		start := time.Now()
		_, err := c.Ask(ctx, []any{"evalsha", "hash", "1", "key"}, "source")
		if err == nil || time.Since(start) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// TestDelEnds: a deletion ends when its context does, though the client does not heed that.
func TestDelEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := newScripted(t, time.Hour)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, core.ErrTimeout)
		defer cancel()
		start := time.Now()
		if err := c.Del(ctx, []any{"del", "k"}); !errors.Is(err, core.ErrTimeout) || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		time.Sleep(time.Hour)
	})
}

// TestConnectionIsLate: a connection that notices the deadline before its caller does is late, and the caller is told
// so.
func TestConnectionIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deadline := time.Now().Add(core.DefaultTimeout)
		_, err := idle().guarded(t.Context(), deadline, newServer(""), Target{}, func(context.Context) (string, error) {
			time.Sleep(time.Until(deadline))
			return "", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
		})
		if err != ErrLate {
			t.Errorf("the caller is told %v", err)
		}
	})
}

// silent is a client whose server does not answer for longer than a connection may take to be made.
type silent struct{ redis.UniversalClient }

func (silent) Process(context.Context, redis.Cmder) error {
	time.Sleep(connectTime + time.Second)
	return context.DeadlineExceeded
}

// TestConnectionNotMade: a request that has no deadline is told that it was not sent, since there is no connection.
func TestConnectionNotMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := []core.Limit{core.PerHour(1)}
		rule := script.New("sash", core.Binding{Limits: limits}, script.Decide(false, limits))
		target := Target{Rule: &rule, Key: "k"}
		_, err := New(silent{}, nil).Alone(t.Context(), time.Time{}, target, target.probe(), "source")
		if core.StageOf(err) != core.StageQueued || !errors.Is(err, core.ErrTimeout) {
			t.Errorf("the caller is told %v, at the stage %q", err, core.StageOf(err))
		}
		time.Sleep(time.Hour)
	})
}

// TestCallsBounded: no more than 1024 calls are under way. Another one waits for its turn, until its context ends.
func TestCallsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Client{calls: make(chan struct{}, maxCalls)}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, core.ErrTimeout)
		defer cancel()
		n, end := 0, make(chan struct{})
		call := func() (string, error) {
			n++
			<-end
			return "", nil
		}
		for range 1025 {
			go func() { _, _ = c.inTurn(t.Context(), call) }()
			synctest.Wait()
		}
		if n != 1024 {
			t.Errorf("%d calls at a time", n)
		}
		if _, err := c.inTurn(ctx, call); core.StageOf(err) != core.StageQueued || !errors.Is(err, core.ErrTimeout) {
			t.Errorf("one more call: %v at the stage %q, want ErrTimeout while queued", err, core.StageOf(err))
		}
		if synctest.Wait(); n != 1024 {
			t.Errorf("%d calls before a turn comes", n)
		}
		end <- struct{}{}
		if synctest.Wait(); n != 1025 {
			t.Errorf("%d calls after a turn has come", n)
		}
		close(end)
	})
}
