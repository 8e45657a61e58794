package sashgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/extra/sashgrpc"
	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

func withMetadata(ctx context.Context, pairs ...string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}

// textOf returns the text of the message of a unary call, "" for a stream.
func textOf(call sashgrpc.Call) string {
	in, _ := call.Message.(*pb.SimpleRequest)
	return string(in.GetPayload().GetBody())
}

// TestExact: of 50 calls at once, of both kinds, as many are admitted as the limit says, in memory and in Redis.
func TestExact(t *testing.T) {
	for name, store := range map[string]core.Store{
		"memory": memstore.New(), "redis": redisstore.New(redistest.Start(t).Client(t)),
	} {
		s := new(service)
		l := limiter(t, store, core.PerHour(20))
		client := serve(t, s, both(l, user))
		var admitted, refused atomic.Int64
		var group sync.WaitGroup
		for i := range 50 {
			call := callUnary
			if i%2 == 1 {
				call = callStream
			}
			group.Go(func() {
				switch _, err := call(t.Context(), client, ""); status.Code(err) {
				case codes.OK:
					admitted.Add(1)
				case codes.ResourceExhausted:
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		group.Wait()
		got := [...]int64{admitted.Load(), refused.Load(), s.handled.Load(), used(t, l)}
		if got != [...]int64{20, 30, 20, 20} {
			t.Errorf("%s: %d admitted, refused, handled and used", name, got)
		}
	}
}

// TestAdmitted: the answer, the error and the context of a handler are its own, and the observer hears of the call.
func TestAdmitted(t *testing.T) {
	heard := new(events)
	l := core.Must(core.New(core.Config{
		Name: "test", Store: memstore.New(), Limits: []core.Limit{core.PerHour(9)}, Observer: heard,
	}))
	s := &service{do: func(ctx context.Context, text string) error {
		if _, ok := ctx.Deadline(); !ok || text == "fail" {
			return status.Error(codes.DataLoss, "as it is")
		}
		return nil
	}}
	client := serve(t, s, both(l, user))
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	out, err := client.UnaryCall(ctx, payload("hello"))
	if err != nil || string(out.GetPayload().GetBody()) != "hello" {
		t.Errorf("%v, %v, want hello", out, err)
	}
	for method, call := range calls {
		heard.take()
		trailer, err := call(ctx, client, "fail")
		s := status.Convert(err)
		if s.Code() != codes.DataLoss || s.Message() != "as it is" || len(trailer.Get(pushback)) > 0 {
			t.Errorf("%v with %v, want the error of the handler", err, trailer)
		}
		if e := heard.take(); len(e) != 1 || e[0].Outcome() != core.OutcomeAdmitted || e[0].Key != "user:1" ||
			e[0].Cost != 1 || e[0].Label != method || nethttp.Status(e[0].Decision) != 200 {
			t.Errorf("%+v, want one event of %s", e, method)
		}
	}
}

// TestMethods: SkipMethods excludes, and ForMethod limits alone what it names, under a limiter behind another.
func TestMethods(t *testing.T) {
	api, one := limiter(t, nil, core.PerHour(100)), limiter(t, nil, core.PerHour(2))
	client := serve(t, new(service), []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(
			sashgrpc.UnaryServer(api, user, sashgrpc.SkipMethods(emptyMethod), sashgrpc.SkipMethods("/a.B/C")),
			sashgrpc.UnaryServer(one, user, sashgrpc.ForMethod(unaryMethod), sashgrpc.ForMethod("/a.B/C")),
		),
		grpc.ChainStreamInterceptor(
			sashgrpc.StreamServer(api, user, sashgrpc.SkipMethods("/a.B/C", streamMethod)),
			sashgrpc.StreamServer(one, user, sashgrpc.ForMethod("/a.B/C")),
		),
	})
	for i, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
		_, err := callUnary(t.Context(), client, "")
		wantCode(t, err, want)
		_, err = client.EmptyCall(t.Context(), &pb.Empty{})
		wantCode(t, err, codes.OK)
		_, err = callStream(t.Context(), client, "")
		wantCode(t, err, codes.OK)
		if n := used(t, api); n != int64(i+1) {
			t.Errorf("%d used of all methods, want %d", n, i+1)
		}
	}
	if n := used(t, one); n != 2 {
		t.Errorf("%d used of the method, want 2", n)
	}
}

// TestMethodWithoutSlash: a method that the server takes without its slash is limited as with it.
func TestMethodWithoutSlash(t *testing.T) {
	one := limiter(t, nil, core.PerHour(1))
	stream := sashgrpc.StreamServer(one, user, sashgrpc.ForMethod(streamMethod))
	for i, method := range []string{streamMethod, streamMethod[1:]} {
		err := stream(nil, serverStream{t.Context()}, &grpc.StreamServerInfo{FullMethod: method},
			func(any, grpc.ServerStream) error { return nil })
		wantCode(t, err, []codes.Code{codes.OK, codes.ResourceExhausted}[i])
	}
}

// TestUnknownMethods: methods of UnknownServiceHandler, which clients invent, are no labels, unless WithLabel names
// them. Key and cost see them.
func TestUnknownMethods(t *testing.T) {
	known := nethttp.WithLabel(func(r *http.Request) string {
		return map[string]string{"/a.B/C7": "/a.B/C7"}[r.URL.Path]
	})
	for i, opts := range [][]sashgrpc.Option{nil, {known}} {
		heard := new(events)
		l := core.Must(core.New(core.Config{
			Name: "test", Store: memstore.New(), Limits: []core.Limit{core.PerHour(1000)}, Observer: heard,
		}))
		var methods sync.Map
		key := func(_ context.Context, call sashgrpc.Call) (string, error) {
			methods.Store(call.Method, true)
			return "user:1", nil
		}
		unknown := grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return nil })
		conn := dial(t, new(service), append(both(l, key, opts...), unknown))
		for n := range 300 {
			err := conn.Invoke(t.Context(), fmt.Sprint("/a.B/C", n), new(pb.Empty), new(pb.Empty))
			wantCode(t, err, codes.Internal) // the handler has answered nothing
		}
		for _, call := range calls {
			if _, err := call(t.Context(), pb.NewTestServiceClient(conn), ""); err != nil {
				t.Fatal(err)
			}
		}
		labels, all := map[string]int{}, heard.take()
		for _, e := range all {
			labels[e.Label]++
		}
		want := []map[string]int{
			{"": 300, unaryMethod: 1, streamMethod: 1}, {"": 299, "/a.B/C7": 1, unaryMethod: 1, streamMethod: 1},
		}[i]
		if !maps.Equal(labels, want) {
			t.Errorf("%d labels of %d calls, want %v", len(labels), len(all), want)
		}
		if _, ok := methods.Load("/a.B/C299"); !ok {
			t.Error("the key function has not seen the method")
		}
	}
}

// serverStream is a stream that has a context alone.
type serverStream struct{ ctx context.Context }

func (s serverStream) Context() context.Context   { return s.ctx }
func (serverStream) SetHeader(metadata.MD) error  { return nil }
func (serverStream) SendHeader(metadata.MD) error { return nil }
func (serverStream) SetTrailer(metadata.MD)       {}
func (serverStream) SendMsg(any) error            { return nil }
func (serverStream) RecvMsg(any) error            { return nil }

// TestKeyAndCost: both functions get the method and the message; a stream has no message.
func TestKeyAndCost(t *testing.T) {
	var seen []sashgrpc.Call
	key := func(_ context.Context, call sashgrpc.Call) (string, error) {
		seen = append(seen, call)
		return "user:1", nil
	}
	costs := sashgrpc.WithCost(func(_ context.Context, call sashgrpc.Call) int {
		seen = append(seen, call)
		return 2 + len(textOf(call))
	})
	l := limiter(t, nil, core.PerHour(100))
	client := serve(t, new(service), both(l, key, costs))
	for _, c := range []struct {
		method, text string
		used         int64
	}{{unaryMethod, "four", 6}, {streamMethod, "", 8}} {
		seen = nil
		if _, err := calls[c.method](t.Context(), client, c.text); err != nil {
			t.Fatal(err)
		}
		if len(seen) != 2 || slices.ContainsFunc(seen, func(call sashgrpc.Call) bool {
			return call.Method != c.method || textOf(call) != c.text ||
				(call.Message == nil) != (c.method == streamMethod)
		}) {
			t.Errorf("%+v, want two of %s", seen, c.method)
		}
		if n := used(t, l); n != c.used {
			t.Errorf("%d used, want %d", n, c.used)
		}
	}
}

// TestKey: functions for HTTP find the peer, the metadata, the method and the context of a call.
func TestKey(t *testing.T) {
	var got string
	var err error
	read := func(of func(*http.Request) (string, error)) sashgrpc.KeyFunc {
		return func(ctx context.Context, call sashgrpc.Call) (string, error) {
			got, err = sashgrpc.Key(of)(ctx, call)
			return "user:1", nil
		}
	}
	for want, of := range map[string]func(*http.Request) (string, error){
		"ip:127.0.0.1":      keyfuncs.RemoteIP,
		"ip:198.51.100.7":   keyfuncs.IP(keyfuncs.TrustHops(1)),
		"header:x-tenant:a": keyfuncs.Header("X-Tenant"),
		unaryMethod + " yes": func(r *http.Request) (string, error) {
			_, timed := r.Context().Deadline()
			return r.URL.Path + map[bool]string{true: " yes"}[timed], nil
		},
	} {
		client := serve(t, new(service), both(limiter(t, nil, core.PerHour(9)), read(of)))
		ctx, cancel := context.WithTimeout(withMetadata(t.Context(),
			"x-tenant", "a", "x-forwarded-for", "203.0.113.9", "x-forwarded-for", "198.51.100.7"), time.Hour)
		_, failed := callUnary(ctx, client, "")
		cancel()
		if failed != nil || err != nil || got != want {
			t.Errorf("%q, %v, %v, want %q", got, err, failed, want)
		}
	}
	if _, err := sashgrpc.Key(keyfuncs.RemoteIP)(t.Context(), sashgrpc.Call{}); !errors.Is(err, keyfuncs.ErrNoKey) {
		t.Errorf("without a peer: %v, want ErrNoKey", err)
	}
}

// TestPeersWithoutAddress: what doc.go says of clients over a unix socket and over bufconn, which have no address.
func TestPeersWithoutAddress(t *testing.T) {
	unix, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	memory := bufconn.Listen(1 << 16)
	type dialer = func(context.Context, string) (net.Conn, error)
	for listener, dial := range map[net.Listener]dialer{
		unix:   func(context.Context, string) (net.Conn, error) { return net.Dial("unix", unix.Addr().String()) },
		memory: func(ctx context.Context, _ string) (net.Conn, error) { return memory.DialContext(ctx) },
	} {
		var got []string
		key := func(ctx context.Context, call sashgrpc.Call) (string, error) {
			got = nil
			for _, of := range []keyfuncs.Func{
				keyfuncs.RemoteIP, keyfuncs.IP(keyfuncs.TrustUnixSocket()),
				keyfuncs.First(keyfuncs.RemoteIP, keyfuncs.Everyone), keyfuncs.Header("X-User"),
			} {
				name, err := sashgrpc.Key(of)(ctx, call)
				if err != nil && !errors.Is(err, keyfuncs.ErrNoKey) {
					t.Error(err)
				}
				got = append(got, name)
			}
			return "user:1", nil
		}
		client := pb.NewTestServiceClient(dialOn(t, listener, new(service),
			both(limiter(t, nil, core.PerHour(9)), key), grpc.WithContextDialer(dial)))
		for forwarded, name := range map[string]string{"": "ip:unix", "198.51.100.7": "ip:198.51.100.7"} {
			ctx := withMetadata(t.Context(), "x-user", "ada")
			if forwarded != "" {
				ctx = withMetadata(ctx, "x-forwarded-for", forwarded)
			}
			if listener == memory {
				name = ""
			}
			_, err := callUnary(ctx, client, "")
			if want := []string{"", name, "everyone", "header:x-user:ada"}; err != nil || !slices.Equal(got, want) {
				t.Errorf("%v: %q, %v, want %q", listener.Addr(), got, err, want)
			}
		}
	}
}

// TestShadow: everything goes on, and the observer hears what would have been.
func TestShadow(t *testing.T) {
	for name, key := range map[string]sashgrpc.KeyFunc{"refused": user, "nameless": failing(nil)} {
		heard := new(events)
		l := core.Must(core.New(core.Config{
			Name: "test", Store: storetest.Fixed(core.Decision{RetryAfter: time.Minute}),
			Limits: []core.Limit{core.PerMinute(1)}, Observer: heard,
		}))
		client := serve(t, new(service), both(l, key, sashgrpc.Shadow()))
		for _, call := range calls {
			trailer, err := call(t.Context(), client, "")
			if err != nil || len(trailer.Get(pushback)) > 0 {
				t.Errorf("%s: %v with %v", name, err, trailer)
			}
			if e := heard.take(); len(e) != 1 || e[0].Outcome() != core.OutcomeShadowRefused ||
				nethttp.Status(e[0].Decision) == 200 {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
}

// TestMisuse: what is given wrong is said when the program starts.
func TestMisuse(t *testing.T) {
	l := limiter(t, nil, core.PerMinute(1))
	const methods = ": give each with its service and without wildcards, as generated code has it, " +
		`such as "/auth.Auth/Login"`
	const noLimiter = "sash: the limiter is nil or the zero Limiter: give one made by core.New"
	const noKey = "sash: the key function is nil: give one, such as sashgrpc.Key(keyfuncs.RemoteIP)"
	for want, wrong := range map[string][]func(){
		noLimiter: {
			func() { sashgrpc.UnaryServer(nil, user) }, func() { sashgrpc.StreamServer(new(core.Limiter), user) },
			func() { sashgrpc.UnaryClient(nil, user) }, func() { sashgrpc.UnaryClient(new(core.Limiter), user) },
		},
		noKey: {
			func() { sashgrpc.UnaryServer(l, nil) }, func() { sashgrpc.StreamServer(l, nil) },
			func() { sashgrpc.UnaryClient(l, nil) },
		},
		`sash: limiter "test": an option is nil: leave it out`: {
			func() { sashgrpc.UnaryServer(l, user, nil) },
		},
		"sash: Key(nil): give a function, such as keyfuncs.RemoteIP":     {func() { sashgrpc.Key(nil) }},
		"sash: WithCost(nil): give a function, or leave the option out":  {func() { sashgrpc.WithCost(nil) }},
		"sash: CountWhen(nil): give a function, or leave the option out": {func() { sashgrpc.CountWhen(nil) }},
		`sash: the methods []` + methods: {
			func() { sashgrpc.ForMethod() }, func() { sashgrpc.SkipMethods() },
		},
		`sash: the methods ["/a.B/C" "a.B/C"]` + methods: {func() { sashgrpc.ForMethod("/a.B/C", "a.B/C") }},
		`sash: the methods ["/a.B/*"]` + methods:         {func() { sashgrpc.SkipMethods("/a.B/*") }},
		`sash: the methods ["/a.B"]` + methods:           {func() { sashgrpc.SkipMethods("/a.B") }},
		`sash: the methods ["x/a.B/C"]` + methods:        {func() { sashgrpc.SkipMethods("x/a.B/C") }},
		`sash: the methods ["/a.B/C/"]` + methods:        {func() { sashgrpc.SkipMethods("/a.B/C/") }},
	} {
		for i, wrong := range wrong {
			func() {
				defer func() {
					got := recover()
					if err, ok := got.(error); ok {
						got = err.Error()
					}
					if got != want {
						t.Errorf("%d: panicked with %v, want %s", i, got, want)
					}
				}()
				wrong()
			}()
		}
	}
}
