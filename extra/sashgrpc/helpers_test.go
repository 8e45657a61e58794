package sashgrpc_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/extra/sashgrpc"
)

const (
	unaryMethod  = pb.TestService_UnaryCall_FullMethodName
	streamMethod = pb.TestService_FullDuplexCall_FullMethodName
)

// transport is the part of a server that takes the trailer of a call.
type transport struct{ trailer metadata.MD }

func (*transport) Method() string                    { return "" }
func (*transport) SetHeader(metadata.MD) error       { return nil }
func (*transport) SendHeader(metadata.MD) error      { return nil }
func (t *transport) SetTrailer(md metadata.MD) error { t.trailer = md; return nil }

// stream is a stream with nothing but a context.
type stream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s stream) Context() context.Context { return s.ctx }

// handler is that of a call. It gets the call's context.
type handler func(context.Context) error

// guarded makes calls of both kinds through interceptors, each with a text as the message of the unary one, and
// returns their trailers and errors, by the method.
func guarded(l *core.Limiter, key sashgrpc.KeyFunc, opts ...sashgrpc.Option,
) map[string]func(ctx context.Context, text string, h handler) (metadata.MD, error) {
	unary, ofStream := sashgrpc.UnaryServer(l, key, opts...), sashgrpc.StreamServer(l, key, opts...)
	return map[string]func(context.Context, string, handler) (metadata.MD, error){
		unaryMethod: func(ctx context.Context, text string, h handler) (metadata.MD, error) {
			var sent transport
			ctx = grpc.NewContextWithServerTransportStream(ctx, &sent)
			_, err := unary(ctx, payload(text), &grpc.UnaryServerInfo{FullMethod: unaryMethod},
				func(ctx context.Context, _ any) (any, error) { return nil, h(ctx) })
			return sent.trailer, err
		},
		streamMethod: func(ctx context.Context, _ string, h handler) (metadata.MD, error) {
			var sent transport
			ctx = grpc.NewContextWithServerTransportStream(ctx, &sent)
			err := ofStream("service", stream{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: streamMethod},
				func(_ any, s grpc.ServerStream) error { return h(s.Context()) })
			return sent.trailer, err
		},
	}
}

func succeeds(context.Context) error { return nil }

// payload returns a message with a text.
func payload(text string) *pb.SimpleRequest {
	return &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte(text)}}
}

// user names one client for all calls.
func user(context.Context, sashgrpc.Call) (string, error) { return "user:1", nil }

// failing is a key function that fails.
func failing(err error) sashgrpc.KeyFunc {
	return func(context.Context, sashgrpc.Call) (string, error) { return "", err }
}

// limiter returns a limiter in memory, or on the store if it is not nil, with a list of its events.
func limiter(store core.Store, limit core.Limit) (*core.Limiter, *[]core.Event) {
	if store == nil {
		store = memstore.New()
	}
	var events []core.Event
	l := core.Must(core.New(core.Config{
		Name: "test", Store: store, Limits: []core.Limit{limit}, OnStoreError: core.FailClosed, Timeout: time.Minute,
		Observer: core.ObserverFunc(func(_ context.Context, e core.Event) { events = append(events, e) }),
	}))
	return l, &events
}

// used returns the number of units that the client of user has used.
func used(l *core.Limiter) int64 {
	return core.Must(l.Usage(context.Background(), "user:1"))[0].Used
}

// wantCode fails the test unless err has the code.
func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}
