package sashgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
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
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/extra/sashgrpc"
)

const (
	unaryMethod  = pb.TestService_UnaryCall_FullMethodName
	emptyMethod  = pb.TestService_EmptyCall_FullMethodName
	streamMethod = pb.TestService_FullDuplexCall_FullMethodName

	pushback = "grpc-retry-pushback-ms"
)

// service counts what reaches its handlers. A handler answers by the function do, if that is not nil, with the payload
// of the first message.
type service struct {
	pb.UnimplementedTestServiceServer
	do      func(ctx context.Context, text string) error
	handled atomic.Int64
}

func (s *service) answer(ctx context.Context, text string) error {
	s.handled.Add(1)
	if s.do == nil {
		return nil
	}
	return s.do(ctx, text)
}

func (s *service) EmptyCall(ctx context.Context, in *pb.Empty) (*pb.Empty, error) {
	return in, s.answer(ctx, "")
}

func (s *service) UnaryCall(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	err := s.answer(ctx, string(in.GetPayload().GetBody()))
	return &pb.SimpleResponse{Payload: in.GetPayload()}, err
}

// FullDuplexCall sends each message back until the client sends no more.
func (s *service) FullDuplexCall(
	stream grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse],
) error {
	text := ""
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return s.answer(stream.Context(), text)
		}
		if err != nil {
			return err
		}
		text = string(in.GetPayload().GetBody())
		if err := stream.Send(&pb.StreamingOutputCallResponse{Payload: in.GetPayload()}); err != nil {
			return err
		}
	}
}

// serve runs a server on a socket and returns a client of it.
func serve(t *testing.T, s *service, of []grpc.ServerOption, opts ...grpc.DialOption) pb.TestServiceClient {
	t.Helper()
	return pb.NewTestServiceClient(dial(t, s, of, opts...))
}

func dial(t *testing.T, s *service, of []grpc.ServerOption, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return dialOn(t, listener, s, of, opts...)
}

func dialOn(
	t *testing.T, listener net.Listener, s *service, of []grpc.ServerOption, opts ...grpc.DialOption,
) *grpc.ClientConn {
	t.Helper()
	server := grpc.NewServer(of...)
	pb.RegisterTestServiceServer(server, s)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(),
		append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return conn
}

// both returns the options of a server whose unary calls and streams have the limiter.
func both(limiter *core.Limiter, key sashgrpc.KeyFunc, opts ...sashgrpc.Option) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(sashgrpc.UnaryServer(limiter, key, opts...)),
		grpc.ChainStreamInterceptor(sashgrpc.StreamServer(limiter, key, opts...)),
	}
}

// user names one client for all calls.
func user(context.Context, sashgrpc.Call) (string, error) { return "user:1", nil }

// events is an observer that keeps what it hears.
type events struct {
	mu    sync.Mutex
	heard []core.Event
}

func (e *events) Observe(_ context.Context, event core.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, event)
}

// take returns what was heard since the last call.
func (e *events) take() []core.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	heard := e.heard
	e.heard = nil
	return heard
}

// limiter returns a limiter in memory, or on the store if it is not nil.
func limiter(t *testing.T, store core.Store, limit core.Limit) *core.Limiter {
	t.Helper()
	if store == nil {
		store = memstore.New()
	}
	l, err := core.New(core.Config{
		Name: "test", Store: store, Limits: []core.Limit{limit}, OnStoreError: core.FailClosed, Observer: core.Silent,
		Timeout: 10 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// used returns how many units the client of user has used.
func used(t *testing.T, l *core.Limiter) int64 {
	t.Helper()
	uses, err := l.Usage(context.Background(), "user:1")
	if err != nil {
		t.Fatal(err)
	}
	return uses[0].Used
}

// payload returns a message with a text.
func payload(text string) *pb.SimpleRequest {
	return &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte(text)}}
}

// callUnary makes a unary call, and returns its trailer and its error.
func callUnary(ctx context.Context, client pb.TestServiceClient, text string) (trailer metadata.MD, err error) {
	_, err = client.UnaryCall(ctx, payload(text), grpc.Trailer(&trailer))
	return trailer, err
}

// callStream makes a stream with two messages, and returns its trailer and its error.
func callStream(ctx context.Context, client pb.TestServiceClient, text string) (metadata.MD, error) {
	stream, err := client.FullDuplexCall(ctx)
	if err != nil {
		return nil, err
	}
	for range 2 {
		message := &pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: []byte(text)}}
		if err := stream.Send(message); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	for {
		if _, err = stream.Recv(); errors.Is(err, io.EOF) {
			return stream.Trailer(), nil
		} else if err != nil {
			return stream.Trailer(), err
		}
	}
}

// calls are both kinds of calls.
var calls = map[string]func(context.Context, pb.TestServiceClient, string) (metadata.MD, error){
	unaryMethod: callUnary, streamMethod: callStream,
}

// told describes a refusal: code, reason, limit, wait by RetryInfo, pushback.
func told(trailer metadata.MD, err error) string {
	s, text := status.Convert(err), ""
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			text += fmt.Sprintf(" %s %s", d.GetReason(), d.GetDomain())
			if limit := d.GetMetadata()["limit"]; limit != "" {
				text += " limit " + limit
			}
		case *errdetails.RetryInfo:
			text += fmt.Sprintf(" retry %v", d.GetRetryDelay().AsDuration())
		default:
			text += fmt.Sprintf(" %T", d)
		}
	}
	for _, ms := range trailer.Get(pushback) {
		text += " pushback " + ms
	}
	return s.Code().String() + text
}

// wantCode fails the test unless err has the code.
func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("%v: %v, want %v", got, err, want)
	}
}
