package sashgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/extra/sashgrpc"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// told describes a refusal: code, reason, limit, wait by RetryInfo, pushback.
func told(trailer metadata.MD, err error) string {
	s := status.Convert(err)
	text := s.Code().String()
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			text += fmt.Sprintf(" %s %s %s", d.GetReason(), d.GetDomain(), d.GetMetadata()["limit"])
		case *errdetails.RetryInfo:
			text += fmt.Sprintf(" retry %v", d.GetRetryDelay().AsDuration())
		default:
			text += fmt.Sprintf(" %T", d)
		}
	}
	for _, ms := range trailer.Get("grpc-retry-pushback-ms") {
		text += " pushback " + ms
	}
	return text
}

// TestRefusals: for each reason, the code, the details, the trailer and the event, of both kinds of calls. A refused
// call reaches no handler, and neither the key nor the text of an error is in its status.
func TestRefusals(t *testing.T) {
	const domain = " github.com/sashlimit/sash "
	over := core.Decision{RetryAfter: 1500*time.Millisecond + 1}
	guesses := &keyfuncs.RefusedError{
		Decision: core.Decision{Limit: core.PerMinute(1).Named("guesses"), RetryAfter: time.Minute},
	}
	secret := func(context.Context, sashgrpc.Call) (string, error) { return "secret", nil }
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for _, c := range []struct {
		ctx    context.Context
		answer core.Decision
		key    sashgrpc.KeyFunc
		want   string
		events string
	}{
		{t.Context(), over, secret,
			"ResourceExhausted RATE_LIMIT_EXCEEDED" + domain + "1m0s retry 1.500000001s pushback 1501", "[refused]"},
		{t.Context(), core.Decision{RetryAfter: core.Never}, secret,
			"ResourceExhausted RATE_LIMIT_EXCEEDED" + domain + "1m0s pushback -1", "[refused]"},
		{t.Context(), over, failing(guesses),
			"ResourceExhausted RATE_LIMIT_EXCEEDED" + domain + "guesses retry 1m0s pushback 60000", "[]"},
		{t.Context(), over, failing(fmt.Errorf("secret: %w", keyfuncs.ErrNoKey)),
			"InvalidArgument CLIENT_UNIDENTIFIED" + domain, "[no_key]"},
		{t.Context(), over, failing(&keyfuncs.UnauthenticatedError{Reason: "secret"}),
			"Unauthenticated UNAUTHENTICATED" + domain, "[no_key]"},
		{t.Context(), over, failing(errors.New("secret")), "Internal INTERNAL_ERROR" + domain, "[key_failed]"},
		{t.Context(), core.Decision{Err: errors.New("secret")}, secret,
			"Unavailable RATE_LIMITER_UNAVAILABLE" + domain + " retry 1s pushback 1000", "[failed_closed]"},
		{canceled, over, user, "Canceled", "[canceled]"},
		{late, over, user, "DeadlineExceeded", "[canceled]"},
	} {
		l, events := limiter(storetest.Fixed(c.answer), core.PerMinute(9))
		for method, call := range guarded(l, c.key, nethttp.WithOutageRetryAfter(time.Second)) {
			*events = nil
			trailer, err := call(c.ctx, "", func(context.Context) error { t.Error("the call is handled"); return nil })
			got := strings.ReplaceAll(told(trailer, err), "retry 2s pushback 2000", "retry 1s pushback 1000") // drawn
			if got != c.want || strings.Contains(status.Convert(err).Proto().String(), "secret") {
				t.Errorf("%s:\n got %s, %v\nwant %s", method, got, err, c.want)
			}
			var outcomes []core.Outcome
			for _, e := range *events {
				if outcomes = append(outcomes, e.Outcome()); e.Label != method {
					t.Errorf("got the label %q, want %s", e.Label, method)
				}
			}
			if got := fmt.Sprint(outcomes); got != c.events {
				t.Errorf("%s: got the events %s, want %s", method, got, c.events)
			}
		}
	}
}

// retrying is a service config by which a client sends a call three times in all.
const retrying = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 3, "initialBackoff": "3600s",
	"maxBackoff": "3600s", "backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`

// TestPushback: over a socket, the retries of a service config, which would wait an hour, go by the trailer, and end
// where a call can never pass.
func TestPushback(t *testing.T) {
	listener := core.Must(net.Listen("tcp", "127.0.0.1:0"))
	l, _ := limiter(nil, core.PerSecond(1))
	var asked atomic.Int64
	key := func(context.Context, sashgrpc.Call) (string, error) { asked.Add(1); return "user:1", nil }
	costs := sashgrpc.WithCost(func(_ context.Context, call sashgrpc.Call) int { return len(textOf(call)) })
	server := grpc.NewServer(grpc.UnaryInterceptor(sashgrpc.UnaryServer(l, key, costs)))
	pb.RegisterTestServiceServer(server, pb.UnimplementedTestServiceServer{})
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	conn := core.Must(grpc.NewClient(listener.Addr().String(), grpc.WithDefaultServiceConfig(retrying),
		grpc.WithTransportCredentials(insecure.NewCredentials())))
	defer conn.Close()
	client := pb.NewTestServiceClient(conn)
	for asked.Load() < 2 { // until a call was refused, and sent again
		asked.Store(0)
		_, err := client.UnaryCall(t.Context(), payload("1"))
		if status.Code(err) != codes.Unimplemented { // by the server's handler
			t.Fatal(err)
		}
	}
	asked.Store(0)
	_, err := client.UnaryCall(t.Context(), payload("22"))
	wantCode(t, err, codes.ResourceExhausted)
	if n := asked.Load(); n != 1 {
		t.Errorf("got a call that can never pass sent %d times, want once", n)
	}
}
