package sashgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/extra/sashgrpc"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

const domain = " github.com/sashlimit/sash"

// failing is a key function that fails.
func failing(err error) sashgrpc.KeyFunc {
	return func(context.Context, sashgrpc.Call) (string, error) { return "", err }
}

// TestRefusals: for every reason, over a socket, the code, the details, the trailer and the event, unary and stream. A
// refused call reaches no handler.
func TestRefusals(t *testing.T) {
	costs := func(n int) sashgrpc.Option {
		return sashgrpc.WithCost(func(context.Context, sashgrpc.Call) int { return n })
	}
	over := core.Decision{RetryAfter: 1500*time.Millisecond + 1}
	down := errors.New("no route to host")
	for _, c := range []struct {
		name    string
		answer  core.Decision
		key     sashgrpc.KeyFunc
		opts    []sashgrpc.Option
		want    string
		outcome core.Outcome
		status  int
	}{
		{"over", over, user, nil,
			"ResourceExhausted RATE_LIMIT_EXCEEDED" + domain + " limit 1m0s retry 1.500000001s pushback 1501",
			core.OutcomeRefused, 429},
		{"never", core.Decision{RetryAfter: core.Never}, user, nil,
			"ResourceExhausted RATE_LIMIT_EXCEEDED" + domain + " limit 1m0s pushback -1", core.OutcomeRefused, 429},
		{"nameless", over, failing(nil), nil,
			"InvalidArgument CLIENT_UNIDENTIFIED" + domain, core.OutcomeNameless, 400},
		{"no key", over, failing(keyfuncs.ErrNoKey), nil,
			"InvalidArgument CLIENT_UNIDENTIFIED" + domain, core.OutcomeNameless, 400},
		{"bad request", over, failing(fmt.Errorf("two: %w", keyfuncs.ErrBadRequest)), nil,
			"InvalidArgument CLIENT_UNIDENTIFIED" + domain, core.OutcomeNameless, 400},
		{"key failed", over, failing(core.ErrStore), nil,
			"Internal INTERNAL_ERROR" + domain, core.OutcomeKeyFailed, 500},
		{"negative cost", over, user, []sashgrpc.Option{costs(-1)},
			"Internal INTERNAL_ERROR" + domain, core.OutcomeInvalid, 500},
		{"down", core.Decision{Err: down}, user, []sashgrpc.Option{nethttp.WithOutageRetryAfter(time.Second)},
			"Unavailable RATE_LIMITER_UNAVAILABLE" + domain + " retry 1s pushback 1000", core.OutcomeFailedClosed, 503},
	} {
		heard := new(events)
		l := core.Must(core.New(core.Config{
			Name: "test", Store: storetest.Fixed(c.answer), Limits: []core.Limit{core.PerMinute(9)},
			OnStoreError: core.FailClosed, Observer: heard,
		}))
		s := new(service)
		client := serve(t, s, both(l, c.key, c.opts...))
		for method, call := range calls {
			got := told(call(t.Context(), client, ""))
			got = strings.ReplaceAll(got, "retry 2s pushback 2000", "retry 1s pushback 1000") // drawn from 1 to 2 s
			if got != c.want {
				t.Errorf("%s, %s:\n got %s\nwant %s", c.name, method, got, c.want)
			}
			e := heard.take()
			if len(e) != 1 || e[0].Outcome() != c.outcome || nethttp.Status(e[0].Decision) != c.status || e[0].Label != method {
				t.Errorf("%s: events %+v, want one with %v, %d and %s", c.name, e, c.outcome, c.status, method)
			}
		}
		if n := s.handled.Load(); n != 0 {
			t.Errorf("%s: %d refused calls were handled", c.name, n)
		}
	}
}

// TestUnavailableIsSpread: while the store is away, clients are told to come back after 5 to 10 s.
func TestUnavailableIsSpread(t *testing.T) {
	l := limiter(t, storetest.Fixed(core.Decision{Err: core.ErrTimeout}), core.PerMinute(1))
	client := serve(t, new(service), both(l, user))
	drawn := map[string]bool{}
	for i := 0; i < 200 && len(drawn) < 6; i++ {
		drawn[told(callUnary(t.Context(), client, ""))] = true
	}
	for n := 5; n <= 10; n++ {
		want := fmt.Sprintf("Unavailable RATE_LIMITER_UNAVAILABLE%s retry %ds pushback %d000", domain, n, n)
		if !drawn[want] {
			t.Errorf("%v, want %s among them", drawn, want)
		}
	}
}

// TestOpenWithoutAStore: under FailOpen calls go on.
func TestOpenWithoutAStore(t *testing.T) {
	l := limiter(t, storetest.Fixed(core.Decision{Err: core.ErrTimeout}), core.PerMinute(1)).WithPolicy(core.FailOpen)
	client := serve(t, new(service), both(l, user))
	for _, call := range calls {
		_, err := call(t.Context(), client, "")
		wantCode(t, err, codes.OK)
	}
}

// TestEndedContext: a call that has ended is answered by its context, without details.
func TestEndedContext(t *testing.T) {
	unary := sashgrpc.UnaryServer(limiter(t, nil, core.PerMinute(1)), user)
	info := &grpc.UnaryServerInfo{FullMethod: unaryMethod}
	next := func(context.Context, any) (any, error) { t.Error("handled"); return nil, nil }
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for ctx, want := range map[context.Context]codes.Code{canceled: codes.Canceled, late: codes.DeadlineExceeded} {
		_, err := unary(ctx, nil, info, next)
		if got := told(nil, err); got != want.String() {
			t.Errorf("%s, want %v", got, want)
		}
	}
}

// TestRefusedByTheKey: a limiter inside the key function answers as the limiter of the interceptor does.
func TestRefusedByTheKey(t *testing.T) {
	failures := limiter(t, nil, core.Per(1, time.Hour).Named("guesses"))
	key := sashgrpc.Key(keyfuncs.APIKey("X-API-Key", func(context.Context, string) (string, error) { return "", nil },
		keyfuncs.LimitFailures(failures, keyfuncs.RemoteIP)))
	client := serve(t, new(service), both(limiter(t, nil, core.PerMinute(9)), key))
	ctx := withMetadata(t.Context(), "x-api-key", "guess")
	for i, want := range []string{"InvalidArgument CLIENT_UNIDENTIFIED", "ResourceExhausted RATE_LIMIT_EXCEEDED"} {
		got := told(callUnary(ctx, client, ""))
		if !strings.HasPrefix(got, want) || i == 1 && !strings.Contains(got, "limit guesses retry 59m") {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestTextsTellNothing: neither the key nor the text of an error is in a status.
func TestTextsTellNothing(t *testing.T) {
	for _, key := range []sashgrpc.KeyFunc{
		func(context.Context, sashgrpc.Call) (string, error) { return "secret", nil },
		failing(errors.New("secret")), failing(fmt.Errorf("secret: %w", keyfuncs.ErrNoKey)),
	} {
		l := limiter(t, storetest.Fixed(core.Decision{Err: errors.New("secret")}), core.PerMinute(1))
		_, err := callUnary(t.Context(), serve(t, new(service), both(l, key)), "")
		if text := status.Convert(err).Proto().String(); err == nil || strings.Contains(text, "secret") {
			t.Errorf("%s tells", text)
		}
	}
}

// retrying is a service config by which a client sends a call three times in all.
const retrying = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 3, "initialBackoff": "3600s",
	"maxBackoff": "3600s", "backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`

// TestPushback: the retries of a service config, which would wait an hour, go by the trailer, and end where a call can
// never pass.
func TestPushback(t *testing.T) {
	heard := new(events)
	l := core.Must(core.New(core.Config{
		Name: "test", Store: memstore.New(), Limits: []core.Limit{core.PerSecond(1)}, Observer: heard,
	}))
	costs := sashgrpc.WithCost(func(_ context.Context, call sashgrpc.Call) int { return len(textOf(call)) })
	client := serve(t, new(service), both(l, user, costs), grpc.WithDefaultServiceConfig(retrying))
	for refused := false; !refused; {
		if _, err := callUnary(t.Context(), client, "1"); err != nil {
			t.Fatal(err)
		}
		refused = len(heard.take()) > 1
	}
	_, err := callUnary(t.Context(), client, "22")
	wantCode(t, err, codes.ResourceExhausted)
	if n := len(heard.take()); n != 1 {
		t.Errorf("a call that can never pass was sent %d times", n)
	}
}
