package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
)

// TestIsFailure: an error speaks against a server if there was no answer, or if the answer is that the server cannot
// decide for now (TestAnswers). An error that is the caller's doing says nothing.
func TestIsFailure(t *testing.T) {
	type verdict struct{ failure, callers bool }
	failure, callers, answer := verdict{failure: true}, verdict{true, true}, verdict{}
	left, end := context.WithCancel(t.Context())
	end()
	for err, want := range map[error]verdict{
		nil:                                   answer,
		errLate:                               failure,
		io.EOF:                                failure,
		&net.OpError{Op: "dial", Err: io.EOF}: failure,
		fmt.Errorf("%w: %v", errors.New("wrapped"), 1): failure,

		fmt.Errorf("wrapped: %w", replyError("LOADING")): failure,
		fmt.Errorf("wrapped: %w", replyError("OOM")):     answer,
		redis.Nil: answer,

		redis.ErrClosed:             callers,
		errCaller{context.Canceled}: callers,
		core.AtStage(core.StageQueued, errCaller{context.Canceled}): callers,
		ended(left):                           callers,
		fmt.Errorf("%w: %w", errLate, io.EOF): failure,
	} {
		if got := (verdict{isFailure(err), isCallers(err)}); got != want {
			t.Errorf("%v: %+v, want %+v", err, got, want)
		}
	}
}

// TestEnded: the end of a context is the server's fault if it was the limiter's timeout, and else the caller's doing.
func TestEnded(t *testing.T) {
	for cause, callers := range map[error]bool{
		core.ErrTimeout: false, context.DeadlineExceeded: true, context.Canceled: true, io.EOF: true,
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if err := ended(ctx); !errors.Is(err, cause) || isCallers(err) != callers {
			t.Errorf("%v: %v, the caller's: %v; want %v", cause, err, isCallers(err), callers)
		}
	}
}

// TestServersBounded: what is known of a server is kept for as long as there are not too many servers.
func TestServersBounded(t *testing.T) {
	var c client
	c.init(redis.NewRing(&redis.RingOptions{}))
	defer c.rdb.Close()
	for i := range 2 * maxServers {
		node := redis.NewClient(&redis.Options{Addr: fmt.Sprint("127.0.0.1:", i+1)})
		defer node.Close()
		if s := c.nodes.get(&c, node); s != c.nodes.get(&c, node) || s.breaker == c.first.breaker {
			t.Fatalf("server %d is not the same again", i)
		}
		if n := len(c.nodes.byClient); n > 256 {
			t.Fatalf("%d servers are kept", n)
		}
	}
	if s := c.server(t.Context(), "no shard has this key"); s != &c.first {
		t.Errorf("without a shard, the server is %+v", s)
	}
}
