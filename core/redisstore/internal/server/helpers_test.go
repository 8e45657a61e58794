package server

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
)

// scripted is a client whose server gives these replies, the last again and again. A reply is a text, an error, what
// the client panics with, or how long the server is silent. Without replies the server is silent until the call ends.
type scripted struct {
	redis.UniversalClient
	t       *testing.T
	replies []any

	mu   sync.Mutex
	sent []string // the names of the commands
}

// names returns the names of the commands that were sent.
func (s *scripted) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

type panics string

func (s *scripted) Process(ctx context.Context, cmd redis.Cmder) error {
	if !cmd.NoRetry() {
		s.t.Errorf("%s may be sent twice", cmd.Name())
	}
	s.mu.Lock()
	s.sent = append(s.sent, cmd.Name())
	n := len(s.sent)
	s.mu.Unlock()
	if len(s.replies) == 0 {
		<-ctx.Done()
		cmd.SetErr(ctx.Err())
		return cmd.Err()
	}
	switch r := s.replies[min(n, len(s.replies))-1].(type) {
	case panics:
		panic(string(r))
	case error:
		cmd.SetErr(r)
	case slowReply:
		time.Sleep(time.Duration(r))
		cmd.(*command).SetVal(admitted)
	case time.Duration:
		time.Sleep(r) // a client need not honor ctx
		cmd.SetErr(context.DeadlineExceeded)
	default:
		cmd.(*command).SetVal(r.(string))
	}
	return cmd.Err()
}

// newScripted returns a client of a server that gives these replies.
func newScripted(t *testing.T, replies ...any) (*scripted, *Client) {
	s := &scripted{t: t, replies: replies}
	return s, New(s, Config{Prefix: "sash"})
}

// admitted is the reply to one request that is admitted where nothing counts.
const admitted = "1790000000 5A-"

// newRequest returns a request by a rule of one limit.
func newRequest() *Request {
	limits := []core.Limit{core.PerHour(10)}
	rule := script.New("sash", core.Binding{Name: "test", Limits: limits}, script.Decide(false, limits))
	return &Request{Ask: core.Ask{Key: "k", Cost: 1}, Rule: &rule}
}

// fail reports failures to a breaker until it opens.
func (b *breaker) fail(t *testing.T) {
	t.Helper()
	for range maxFailures {
		generation, err := b.start()
		if err != nil {
			t.Fatal(err)
		}
		b.report(generation, ErrLate)
	}
}

// counted returns the failures in a row.
func (b *breaker) counted() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failures
}
