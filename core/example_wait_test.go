package core_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// A worker that sends no faster than its provider allows. With a redisstore all workers
// of all processes share the limit.
func ExampleLimiter_Wait() {
	limiter := core.Must(core.New(core.Config{
		Name:   "mail",
		Store:  memstore.New(),
		Limits: []core.Limit{core.Per(2, 20*time.Millisecond), core.PerHour(5)},
	}))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for job := 1; ; job++ {
		if d, err := limiter.Wait(ctx, "provider"); errors.Is(err, core.ErrTooLate) {
			fmt.Println("not today: the next may go in", d.RetryAfter.Round(time.Hour)) // no sleep first
			return
		} else if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("send", job)
	}
	// Output:
	// send 1
	// send 2
	// send 3
	// send 4
	// send 5
	// not today: the next may go in 1h0m0s
}

// An upload in chunks, at most 64 KiB in any 20 ms. A chunk that is larger can never pass.
func ExampleLimiter_WaitN() {
	limiter := core.Must(core.New(core.Config{
		Name: "upload", Store: memstore.New(), Limits: []core.Limit{core.Per(64<<10, 20*time.Millisecond).Named("bytes")},
	}))
	for _, size := range []int64{48 << 10, 48 << 10, 65 << 10} {
		_, err := limiter.WaitN(context.Background(), "bucket", size)
		fmt.Println(size, err)
	}
	// Output:
	// 49152 <nil>
	// 49152 <nil>
	// 66560 sash: the request can never pass: a cost of 66560 exceeds the limit 65536/20ms named bytes
}

// messageConn is what this example needs of a WebSocket connection.
type messageConn interface {
	Read(ctx context.Context) (message string, err error)
	Close(code int, reason string) error
}

// The messages of a WebSocket, counted by user and not by connection. A connection is read
// no faster than the limit allows, so that a client that sends more is slowed down by TCP;
// one that would have to wait for long is closed with 1008, a violation of policy.
func ExampleLimiter_Wait_webSocket() {
	limiter := core.Must(core.New(core.Config{
		Name:   "chat",
		Store:  memstore.New(),
		Limits: []core.Limit{core.Per(2, 10*time.Millisecond), core.PerHour(4)},
	}))
	serve := func(ctx context.Context, c messageConn, user string) error {
		for {
			message, err := c.Read(ctx)
			if err != nil {
				return err
			}
			patience, cancel := context.WithTimeout(ctx, 10*time.Second)
			_, err = limiter.Wait(patience, "user:"+user)
			cancel()
			if err != nil {
				return c.Close(1008, "too many messages")
			}
			fmt.Println(message)
		}
	}
	fmt.Println(serve(context.Background(), &fakeConn{}, "42"))
	// Output:
	// message 1
	// message 2
	// message 3
	// message 4
	// closed with 1008: too many messages
}

// fakeConn sends messages without end.
type fakeConn struct{ sent int }

func (c *fakeConn) Read(context.Context) (string, error) {
	c.sent++
	return fmt.Sprint("message ", c.sent), nil
}

func (c *fakeConn) Close(code int, reason string) error {
	return fmt.Errorf("closed with %d: %s", code, reason)
}

// The types of an interceptor, as package google.golang.org/grpc has them.
type (
	unaryHandler func(ctx context.Context, req any) (any, error)
	serverStream interface {
		Context() context.Context
		RecvMsg(m any) error
	}
)

// The calls of gRPC are refused at once, with ResourceExhausted in place of the errors
// here. The messages of a stream wait for their turn instead: the client is slowed down by
// the flow control of HTTP/2.
func ExampleLimiter_Wait_gRPC() {
	calls := core.Must(core.New(core.Config{Name: "calls", Store: memstore.New(), Limits: []core.Limit{core.PerHour(1)}}))
	messages := core.Must(calls.Rule("messages", core.Per(2, 10*time.Millisecond)))

	// A grpc.UnaryServerInterceptor has a *grpc.UnaryServerInfo too.
	unary := func(ctx context.Context, req any, handler unaryHandler) (any, error) {
		if d := calls.Allow(ctx, userOf(ctx)); !d.Allowed {
			return nil, fmt.Errorf("resource exhausted: retry in %v", d.RetryAfter.Round(time.Minute))
		}
		return handler(ctx, req)
	}
	hello := func(context.Context, any) (any, error) { return "hello", nil }
	for range 2 {
		fmt.Println(unary(context.Background(), nil, hello))
	}

	var stream serverStream = limitedStream{&fakeStream{left: 3}, messages}
	for {
		var message string
		if err := stream.RecvMsg(&message); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(message)
	}
	// Output:
	// hello <nil>
	// <nil> resource exhausted: retry in 1h0m0s
	// 2 to come
	// 1 to come
	// 0 to come
	// EOF
}

// limitedStream is what a grpc.StreamServerInterceptor hands to the handler: a grpc.ServerStream
// is embedded in the same way.
type limitedStream struct {
	serverStream
	limiter *core.Limiter
}

// RecvMsg receives a message and waits for its turn.
func (s limitedStream) RecvMsg(m any) error {
	if err := s.serverStream.RecvMsg(m); err != nil {
		return err
	}
	_, err := s.limiter.Wait(s.Context(), userOf(s.Context()))
	return err
}

// userOf stands for what names the client of a call, such as its verified token.
func userOf(context.Context) string { return "user:42" }

// fakeStream sends some messages.
type fakeStream struct{ left int }

func (s *fakeStream) Context() context.Context { return context.Background() }

func (s *fakeStream) RecvMsg(m any) error {
	if s.left == 0 {
		return io.EOF
	}
	s.left--
	*m.(*string) = fmt.Sprint(s.left, " to come")
	return nil
}
