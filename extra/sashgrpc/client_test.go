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

// refused returns the error of a server that asks for a wait; a negative one has no RetryInfo.
func refused(code codes.Code, wait time.Duration) error {
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: "ANY"}}
	if wait >= 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	}
	s, err := status.New(code, "slow down").WithDetails(details...)
	if err != nil {
		panic(err)
	}
	return s.Err()
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

// TestClientRetries: a call that is refused with RetryInfo is sent again after that time, five times in all, and
// without RetryInfo never.
func TestClientRetries(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		times int // the server refuses
		sent  int
		takes time.Duration
		want  codes.Code
	}{
		{"once", refused(codes.ResourceExhausted, 90*time.Millisecond), 1, 2, 90 * time.Millisecond, codes.OK},
		{"away", refused(codes.Unavailable, 7*time.Second), 2, 3, 14 * time.Second, codes.OK},
		{"always", refused(codes.ResourceExhausted, time.Second), 99, 5, 4 * time.Second, codes.ResourceExhausted},
		{"without RetryInfo", refused(codes.ResourceExhausted, -1), 99, 1, 0, codes.ResourceExhausted},
		{"away without RetryInfo", refused(codes.Unavailable, -1), 99, 1, 0, codes.Unavailable},
		{"too long for the deadline", refused(codes.ResourceExhausted, time.Hour), 99, 1, 0, codes.ResourceExhausted},
		{"another error", errors.New("any"), 99, 1, 0, codes.Unknown},
	} {
		synctest.Test(t, func(t *testing.T) {
			sent := 0
			send := sending(limiter(t, nil, core.PerHour(100)), user, func(n int) error {
				if sent = n + 1; n < c.times {
					return c.err
				}
				return nil
			})
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := send(ctx)
			if takes := time.Since(start); status.Code(err) != c.want || sent != c.sent || takes != c.takes {
				t.Errorf("%s: %v, sent %d times in %v, want %+v", c.name, err, sent, takes, c)
			}
			if c.want != codes.OK && !errors.Is(err, c.err) {
				t.Errorf("%s: %v, want the server's error", c.name, err)
			}
		})
	}
}

// TestClientRefusals: a call is sent again, and others of its key wait, by the RetryInfo of a refusal alone. That of
// another error, such as ABORTED, is about more than the call, and a negative one asks for nothing.
func TestClientRefusals(t *testing.T) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		for wait, again := range map[time.Duration]bool{time.Second: true, 0: true, -time.Second: false} {
			again = again && (code == codes.ResourceExhausted || code == codes.Unavailable)
			synctest.Test(t, func(t *testing.T) {
				s, err := status.New(code, "").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
				if err != nil {
					t.Fatal(err)
				}
				sent := 0
				send := sending(limiter(t, nil, core.PerHour(100)), user, func(n int) error {
					if sent = n + 1; n == 0 {
						return s.Err()
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
					t.Errorf("%v, RetryInfo %v: sent %d times, want %d", code, wait, sent, calls)
				}
				wantCode(t, send(t.Context()), codes.OK)
				if takes := time.Since(start); !again && takes != 0 {
					t.Errorf("%v, RetryInfo %v: the next call waited %v", code, wait, takes)
				}
			})
		}
	}
}

// TestClientPauses: while the server has asked for a pause, no other call of the key is sent, and those of others are.
func TestClientPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type named struct{}
		key := func(ctx context.Context, _ sashgrpc.Call) (string, error) { return ctx.Value(named{}).(string), nil }
		send := sending(limiter(t, nil, core.PerHour(100)), key, func(n int) error {
			if n == 0 {
				return refused(codes.ResourceExhausted, 10*time.Second)
			}
			return nil
		})
		a, b := context.WithValue(t.Context(), named{}, "a"), context.WithValue(t.Context(), named{}, "b")
		start := time.Now()
		go func() { _ = send(a) }()
		synctest.Wait()
		for _, c := range []struct {
			ctx   context.Context
			after time.Duration
		}{{b, 0}, {a, 10 * time.Second}} {
			if err := send(c.ctx); err != nil || time.Since(start) != c.after {
				t.Errorf("%v after %v, want %v", err, time.Since(start), c.after)
			}
		}
	})
}

// TestClientWaits: calls wait for their turn.
func TestClientWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		send := sending(limiter(t, nil, core.PerMinute(5)), user, func(int) error { return nil })
		start := time.Now()
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				if err := send(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if takes := time.Since(start); takes < time.Minute || takes > 62*time.Second {
			t.Errorf("10 calls of 5 in any minute took %v", takes)
		}
	})
}

// TestClientNotSent: a call that cannot be sent has a code, and the error of Wait.
func TestClientNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		keyFails := errors.New("no key")
		full := limiter(t, storetest.Fixed(core.Decision{RetryAfter: time.Minute}), core.PerMinute(1))
		down := limiter(t, storetest.Fixed(core.Decision{Err: core.ErrTimeout}), core.PerMinute(1))
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

// TestClientAndServer: the client of a server with a lower limit than its own is served after a wait, over a socket.
func TestClientAndServer(t *testing.T) {
	s := new(service)
	client := serve(t, s, both(limiter(t, nil, core.Per(1, 20*time.Millisecond)), user),
		grpc.WithChainUnaryInterceptor(sashgrpc.UnaryClient(limiter(t, nil, core.PerHour(1000)), user)))
	for range 5 {
		if _, err := callUnary(t.Context(), client, ""); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.handled.Load(); n != 5 {
		t.Errorf("%d handled, want 5", n)
	}
}
