package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/server"
	"github.com/sashlimit/sash/internal/redistest"
)

// watchedConn calls onWrite, on the goroutine that writes.
type watchedConn struct {
	net.Conn
	onWrite func()
}

func (c watchedConn) Write(b []byte) (int, error) {
	c.onWrite()
	return c.Conn.Write(b)
}

// watched returns the options of a client whose connections are watched.
func watched(addr string, onWrite func()) *redis.Options {
	return &redis.Options{Addr: addr, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return watchedConn{conn, onWrite}, err
	}}
}

// TestLoneCaller: a caller that is alone sends its request itself, if it can be
// sure to be back at its deadline and no later than within a second.
func TestLoneCaller(t *testing.T) {
	server := redistest.Start(t)
	for name, test := range map[string]struct {
		timeout time.Duration
		change  func(*redis.Options)
		want    bool
	}{
		"within a second": {timeout: time.Second, want: true},
		"in a hurry":      {timeout: core.DefaultTimeout / 2},
		"patient":         {timeout: time.Minute},
		"OnConnect": {timeout: time.Second, change: func(o *redis.Options) {
			o.OnConnect = func(context.Context, *redis.Conn) error { return nil }
		}},
		"CredentialsProvider": {timeout: time.Second, change: func(o *redis.Options) {
			o.CredentialsProvider = func() (string, string) { return "", "" }
		}},
		"CredentialsProviderContext": {timeout: time.Second, change: func(o *redis.Options) {
			o.CredentialsProviderContext = func(context.Context) (string, string, error) { return "", "", nil }
		}},
		"StreamingCredentialsProvider": {timeout: time.Second, change: func(o *redis.Options) {
			o.StreamingCredentialsProvider = noCredentials{}
		}},
		"Limiter": {timeout: time.Second, change: func(o *redis.Options) { o.Limiter = noLimiter{} }},
	} {
		t.Run(name, func(t *testing.T) {
			var inline atomic.Bool
			o := watched(server.Addr(), func() {
				stack := make([]byte, 64<<10)
				stack = stack[:runtime.Stack(stack, false)]
				inline.Store(bytes.Contains(stack, []byte(").serveInline(")))
			})
			if test.change != nil {
				test.change(o)
			}
			rdb := redis.NewClient(o)
			defer rdb.Close()
			c := bind(t, rdb, core.PerHour(100_000))
			if test.timeout < core.DefaultTimeout { // not worth waiting for
				_, _ = c.Take(t.Context(), core.Ask{Key: "k", Cost: 1, Timeout: test.timeout})
			} else {
				redistest.WaitFor(t, "an answer in time", func() error {
					_, err := c.Take(t.Context(), core.Ask{Key: "k", Cost: 1, Timeout: test.timeout})
					if err == nil && test.want && !inline.Load() {
						err = errors.New("the server took too long before, so the caller left the request to a worker")
					}
					return err
				})
			}
			if inline.Load() != test.want {
				t.Errorf("the caller sent its request itself: %v, want %v", inline.Load(), test.want)
			}
		})
	}
}

// cancelledWhenAsked is cancelled when the queue has asked whether it is.
type cancelledWhenAsked struct {
	context.Context
	cancel context.CancelFunc
}

func (c cancelledWhenAsked) Err() error {
	defer c.cancel()
	return c.Context.Err()
}

// TestLoneCallerIsCancelled: a caller that is alone and is cancelled while a silent
// server is asked leaves at its deadline, and what it saw speaks against the server.
func TestLoneCallerIsCancelled(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	cancelled, cancel := context.WithCancel(t.Context())
	ctx := cancelledWhenAsked{cancelled, cancel}
	rdb := redis.NewClient(&redis.Options{Addr: silent.Addr().String()})
	defer rdb.Close()
	c := bind(t, rdb, core.PerHour(10))
	deadline := time.Now().Add(time.Second)
	_, err = c.Take(ctx, core.Ask{Key: "k", Cost: 1, Timeout: time.Until(deadline)})
	if err != server.ErrLate || ctx.Err() == nil || time.Now().Before(deadline) {
		t.Errorf("%v; cancelled: %v, %v before the deadline", err, ctx.Err(), time.Until(deadline))
	}
	redistest.WaitFor(t, "the breaker to hear of it", func() error {
		if n := c.batches.server.Counts().TotalFailures; n != 1 {
			return fmt.Errorf("%d failures", n)
		}
		return nil
	})
}

// noCredentials provides credentials that are none.
type noCredentials struct{}

func (noCredentials) Subscribe(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	return auth.NewBasicCredentials("", ""), func() error { return nil }, nil
}

// noLimiter is a limiter of go-redis that limits nothing.
type noLimiter struct{}

func (noLimiter) Allow() error       { return nil }
func (noLimiter) ReportResult(error) {}
