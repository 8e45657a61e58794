package sashgrpc_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/extra/sashgrpc"
)

const none = -time.Hour

// refused returns the error of a server that asks for a wait, or has no RetryInfo if that is none.
func refused(code codes.Code, wait time.Duration) error {
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: "ANY"}}
	if wait != none {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	}
	return core.Must(status.New(code, "slow down").WithDetails(details...)).Err()
}

// sending is a client whose server answers by a function, and is told how often it was asked before.
func sending(l *core.Limiter, key sashgrpc.KeyFunc, answer func(n int) error) func(context.Context) error {
	client := sashgrpc.UnaryClient(l, key)
	var mu sync.Mutex
	sent := 0
	return func(ctx context.Context) error {
		return client(ctx, unaryMethod, nil, nil, nil,
			func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
				mu.Lock()
				defer mu.Unlock()
				sent++
				return answer(sent - 1)
			})
	}
}

// TestClientRetries: a call that is refused is sent again after the time of RetryInfo, five times in all, and the other
// calls of its key wait for that time.
func TestClientRetries(t *testing.T) {
	for _, c := range []struct {
		wait  time.Duration
		times int // the server refuses
		sent  int
		takes time.Duration
		want  codes.Code
	}{
		{90 * time.Millisecond, 1, 2, 90 * time.Millisecond, codes.OK},
		{7 * time.Second, 2, 3, 14 * time.Second, codes.OK},
		{time.Second, 99, 5, 4 * time.Second, codes.ResourceExhausted},
		{time.Hour, 99, 1, 0, codes.ResourceExhausted}, // too long for the deadline
	} {
		synctest.Test(t, func(t *testing.T) {
			sent, refusal := 0, refused(codes.ResourceExhausted, c.wait)
			l, _ := limiter(nil, core.PerHour(100))
			send := sending(l, user, func(n int) error {
				if sent = n + 1; n < c.times {
					return refusal
				}
				return nil
			})
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := send(ctx)
			if takes := time.Since(start); status.Code(err) != c.want || sent != c.sent || takes != c.takes {
				t.Errorf("got %v, sent %d times in %v, want %+v", err, sent, takes, c)
			}
			if c.want != codes.OK && !errors.Is(err, refusal) {
				t.Errorf("got %v, want the server's error", err)
			}
		})
	}
}

// TestClientRefusals: a call is sent again, and others of its key wait, by the RetryInfo of a refusal alone. That of
// another error, such as ABORTED, is about more than the call, and a negative one asks for nothing.
func TestClientRefusals(t *testing.T) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		for wait, again := range map[time.Duration]bool{time.Second: true, 0: true, -time.Second: false, none: false} {
			again = again && (code == codes.ResourceExhausted || code == codes.Unavailable)
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				l, _ := limiter(nil, core.PerHour(100))
				send := sending(l, user, func(n int) error {
					if sent = n + 1; n == 0 {
						return refused(code, wait)
					}
					return nil
				})
				start := time.Now()
				want, calls := code, 1
				if again {
					want, calls = codes.OK, 2
				}
				wantCode(t, send(t.Context()), want)
				if sent != calls {
					t.Errorf("%v, RetryInfo %v: got it sent %d times, want %d", code, wait, sent, calls)
				}
				wantCode(t, send(t.Context()), codes.OK)
				if takes := time.Since(start); !again && takes != 0 {
					t.Errorf("%v, RetryInfo %v: got a wait of %v for the next call, want none", code, wait, takes)
				}
			})
		}
	}
}

// TestClientNotSent: a call that cannot be sent has a code, and the error of Wait.
func TestClientNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		keyFails := errors.New("no key")
		full, _ := limiter(storetest.Fixed(core.Decision{RetryAfter: time.Minute}), core.PerMinute(1))
		down, _ := limiter(storetest.Fixed(core.Decision{Err: core.ErrTimeout}), core.PerMinute(1))
		for _, c := range []struct {
			ctx  context.Context
			l    *core.Limiter
			key  sashgrpc.KeyFunc
			want codes.Code
			err  error
		}{
			{soon, full, user, codes.DeadlineExceeded, core.ErrTooLate},
			{canceled, full, user, codes.Canceled, context.Canceled},
			{soon, down, user, codes.DeadlineExceeded, core.ErrStore},
			{soon, full, failing(keyFails), codes.Unknown, keyFails},
			{soon, full, failing(nil), codes.Unknown, core.ErrInvalid},
		} {
			err := sending(c.l, c.key, func(int) error { t.Error("sent"); return nil })(c.ctx)
			if !errors.Is(err, c.err) || strings.Count(err.Error(), "sash:") > 1 {
				t.Errorf("%v, want %v", err, c.err)
			}
			wantCode(t, err, c.want)
		}
	})
}
