package sashgrpc_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/extra/sashgrpc"
)

// TestCountWhen: a call of each kind counts until its handler has ended, and stays counted if CountWhen says so. It
// gets the code that the client gets, INTERNAL after a panic, and is not asked where the context has ended: the call
// stays counted.
func TestCountWhen(t *testing.T) {
	const unasked = codes.Code(99)
	for i, c := range []struct {
		next func(end func()) error
		want codes.Code
		used int64
	}{
		{func(func()) error { return nil }, codes.OK, 0},
		{func(func()) error { return status.Error(codes.Unauthenticated, "") }, codes.Unauthenticated, 1},
		{func(func()) error { return errors.New("any") }, codes.Unknown, 0},
		{func(func()) error { return context.DeadlineExceeded }, codes.DeadlineExceeded, 0},
		{func(func()) error { panic("any") }, codes.Internal, 0},
		{func(end func()) error { end(); return status.Error(codes.NotFound, "") }, unasked, 1},
	} {
		for _, method := range []string{unaryMethod, streamMethod} {
			got := unasked
			l, _ := limiter(nil, core.PerHour(100))
			ctx, end := context.WithCancel(t.Context())
			defer end()
			asked := func(_ context.Context, call sashgrpc.Call, code codes.Code) bool {
				if got = code; call.Method != method {
					t.Errorf("%d: got the method %s, want %s", i, call.Method, method)
				}
				return code == codes.Unauthenticated
			}
			call := guarded(l, user, sashgrpc.CountWhen(asked))[method]
			func() {
				defer func() { _ = recover() }()
				_, _ = call(ctx, "", func(context.Context) error {
					if n := used(l); n != 1 {
						t.Errorf("%d, %s: got %d used while the call is under way, want 1", i, method, n)
					}
					return c.next(end)
				})
			}()
			if n := used(l); got != c.want || n != c.used {
				t.Errorf("%d, %s: got %v and %d used, want %v and %d", i, method, got, n, c.want, c.used)
			}
		}
	}
}
