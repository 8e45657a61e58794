package sashgrpc

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/extra/internal/clientlimit"
)

// UnaryClient returns an interceptor for the unary calls that a program makes, as httpclient.NewTransport is for its
// HTTP requests: a call waits for its turn as by [core.Limiter.Wait], until its context ends. The limit is that of
// this process with a memstore, and of all processes with a redisstore.
//
// If a server refuses a call by RESOURCE_EXHAUSTED or UNAVAILABLE with a RetryInfo, further calls of the key wait for
// its delay, an hour at most. Then the call is sent again, up to five times in all. Otherwise no call is sent twice:
// ABORTED with RetryInfo, for example, is about the whole transaction. If the context ends before the delay, the caller
// gets the server's error.
//
// The error of a call that is not sent is that of Wait or of the key function, by [errors.Is], and its code is
// DEADLINE_EXCEEDED, CANCELLED or UNKNOWN.
func UnaryClient(limiter *core.Limiter, key KeyFunc) grpc.UnaryClientInterceptor {
	newServer(limiter, key, nil) // panics if an argument is wrong
	gate := clientlimit.Gate{MaxPause: clientlimit.DefaultPause}
	return func(ctx context.Context, method string, message, answer any, conn *grpc.ClientConn,
		next grpc.UnaryInvoker, opts ...grpc.CallOption) (err error) {
		name, failed := key(ctx, Call{method, message})
		for range 5 {
			if failed == nil {
				_, failed = gate.Admit(ctx, limiter, name, 1)
			}
			if failed != nil {
				return cmp.Or(err, error(&notSent{failed}))
			}
			err = next(ctx, method, message, answer, conn, opts...)
			wait, again := retryInfo(err)
			if !again {
				return err
			}
			gate.Pause(name, wait)
		}
		return err
	}
}

// retryInfo returns the delay of a server's refusal, and reports whether the client may retry.
func retryInfo(err error) (wait time.Duration, found bool) {
	s := status.Convert(err)
	if s.Code() != codes.ResourceExhausted && s.Code() != codes.Unavailable {
		return 0, false
	}
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			wait = info.GetRetryDelay().AsDuration()
			return wait, wait >= 0
		}
	}
	return 0, false
}

// notSent is the error of a call that was not sent.
type notSent struct{ error }

func (e *notSent) Unwrap() error { return e.error }

// GRPCStatus returns the status for package status.
func (e *notSent) GRPCStatus() *status.Status { return status.FromContextError(e.error) }
