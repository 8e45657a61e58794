package sashgrpc_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/extra/sashgrpc"
	"github.com/sashlimit/sash/internal/redistest"
)

// failures counts failed logins alone.
var failures = sashgrpc.CountWhen(func(_ context.Context, _ sashgrpc.Call, code codes.Code) bool {
	return code == codes.Unauthenticated
})

// logIn is a handler for which only the text "right" is right.
func logIn(_ context.Context, text string) error {
	if text != "right" {
		return status.Error(codes.Unauthenticated, "wrong password")
	}
	return nil
}

// TestCountWhen: of 50 wrong passwords at once as many reach the handler as the limit says, and all of 20 right ones,
// in memory and in Redis. What is right counts while it is under way.
func TestCountWhen(t *testing.T) {
	for name, store := range map[string]core.Store{
		"memory": memstore.New(), "redis": redisstore.New(redistest.Start(t).Client(t)),
	} {
		l := limiter(t, store, core.PerHour(5))
		s := &service{do: func(ctx context.Context, text string) error {
			if n := used(t, l); n == 0 {
				t.Errorf("%s: nothing is counted while a call is under way", name)
			}
			return logIn(ctx, text)
		}}
		client := serve(t, s, both(l, user, failures))
		for i, c := range []struct {
			text          string
			calls         int
			handled, used int64
		}{{"right", 20, 20, 0}, {"wrong", 50, 5, 5}} {
			s.handled.Store(0)
			var group sync.WaitGroup
			for range c.calls {
				group.Go(func() {
					_, err := callUnary(t.Context(), client, c.text)
					if code := status.Code(err); i == 0 && code != codes.OK ||
						i == 1 && code != codes.Unauthenticated && code != codes.ResourceExhausted {
						t.Errorf("%s: %s: %v", name, c.text, err)
					}
				})
			}
			group.Wait()
			if n := s.handled.Load(); n != c.handled || used(t, l) != c.used {
				t.Errorf("%s: %s: %d handled, %d used, want %+v", name, c.text, n, used(t, l), c)
			}
		}
	}
}

// TestCountWhenStream: a stream counts from its beginning, once, and CountWhen is asked at its end.
func TestCountWhenStream(t *testing.T) {
	l := limiter(t, nil, core.PerHour(5))
	var asked atomic.Int64
	client := serve(t, &service{do: logIn}, both(l, user,
		sashgrpc.CountWhen(func(_ context.Context, call sashgrpc.Call, code codes.Code) bool {
			asked.Add(1)
			return code == codes.Unauthenticated && call.Method == streamMethod
		})))
	for i, c := range []struct {
		text string
		used int64
	}{{"right", 0}, {"wrong", 1}} {
		stream, err := client.FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			message := &pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: []byte(c.text)}}
			if err := stream.Send(message); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
			if n := used(t, l); n != 1 || asked.Load() != int64(i) {
				t.Errorf("%d used, asked %d times, while a stream is under way", n, asked.Load())
			}
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		_, _ = stream.Recv() // its end
		if n := used(t, l); n != c.used || asked.Load() != int64(i+1) {
			t.Errorf("%s: %d used, asked %d times, want %d", c.text, n, asked.Load(), c.used)
		}
	}
}

// TestCodes: CountWhen gets the code that the client gets, INTERNAL after a panic, and is not asked where the context
// has ended: the call stays counted.
func TestCodes(t *testing.T) {
	var got codes.Code
	const unasked = codes.Code(99)
	l := limiter(t, nil, core.PerHour(100))
	unary := sashgrpc.UnaryServer(l, user,
		sashgrpc.CountWhen(func(_ context.Context, _ sashgrpc.Call, code codes.Code) bool {
			got = code
			return false
		}))
	ended, end := context.WithCancel(t.Context())
	for i, c := range []struct {
		ctx  context.Context
		next func() error
		want codes.Code
		used int64
	}{
		{t.Context(), func() error { return nil }, codes.OK, 0},
		{t.Context(), func() error { return status.Error(codes.NotFound, "") }, codes.NotFound, 0},
		{t.Context(), func() error { return errors.New("any") }, codes.Unknown, 0},
		{t.Context(), func() error { return context.DeadlineExceeded }, codes.DeadlineExceeded, 0},
		{t.Context(), func() error { panic("any") }, codes.Internal, 0},
		{ended, func() error { end(); return status.Error(codes.NotFound, "") }, unasked, 1},
	} {
		got = unasked
		func() {
			defer func() { _ = recover() }()
			info := &grpc.UnaryServerInfo{FullMethod: unaryMethod}
			_, _ = unary(c.ctx, nil, info, func(context.Context, any) (any, error) { return nil, c.next() })
		}()
		if n := used(t, l); got != c.want || n != c.used {
			t.Errorf("%d: %v and %d used, want %v and %d", i, got, n, c.want, c.used)
		}
	}
}

// TestCountWhenInShadow: in the shadow too, what counts is what CountWhen says, and nobody waits.
func TestCountWhenInShadow(t *testing.T) {
	l := limiter(t, nil, core.Per(1, time.Hour))
	client := serve(t, &service{do: logIn}, both(l, user, failures, sashgrpc.Shadow()))
	for _, text := range []string{"right", "wrong", "wrong", "right"} {
		_, err := callUnary(t.Context(), client, text)
		wantCode(t, err, map[string]codes.Code{"right": codes.OK, "wrong": codes.Unauthenticated}[text])
	}
	if n := used(t, l); n != 1 {
		t.Errorf("%d used, want 1", n)
	}
}
