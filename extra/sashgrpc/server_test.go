package sashgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/extra/sashgrpc"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// textOf returns the text of the message of a unary call, "" for a stream.
func textOf(call sashgrpc.Call) string {
	in, _ := call.Message.(*pb.SimpleRequest)
	return string(in.GetPayload().GetBody())
}

// TestAdmitted: the error and the context of a handler are its own, the key and the cost are those of the functions,
// which get the method and the message, and the observer gets one event of the method.
func TestAdmitted(t *testing.T) {
	type own struct{}
	ctx := context.WithValue(t.Context(), own{}, "mine")
	var seen []sashgrpc.Call
	key := func(ctx context.Context, call sashgrpc.Call) (string, error) {
		seen = append(seen, call)
		return "user:" + ctx.Value(own{}).(string), nil
	}
	costs := sashgrpc.WithCost(func(ctx context.Context, call sashgrpc.Call) int {
		seen = append(seen, call)
		return 2 + len(textOf(call)) + len(ctx.Value(own{}).(string))
	})
	l, events := limiter(nil, core.PerHour(100))
	for method, call := range guarded(l, key, costs) {
		text, cost := "four", int64(10)
		if method == streamMethod {
			text, cost = "", 6
		}
		seen, *events = nil, nil
		trailer, err := call(ctx, text, func(ctx context.Context) error {
			return status.Error(codes.DataLoss, ctx.Value(own{}).(string))
		})
		if s := status.Convert(err); s.Code() != codes.DataLoss || s.Message() != "mine" || len(trailer) > 0 {
			t.Errorf("%s: got %v with %v, want the error of the handler", method, err, trailer)
		}
		if len(seen) != 2 || slices.ContainsFunc(seen, func(call sashgrpc.Call) bool {
			return call.Method != method || textOf(call) != text || (call.Message == nil) != (method == streamMethod)
		}) {
			t.Errorf("got the calls %+v, want two of %s", seen, method)
		}
		if e := *events; len(e) != 1 || e[0].Outcome() != core.OutcomeAdmitted || e[0].Key != "user:mine" ||
			e[0].Cost != cost || e[0].Label != method {
			t.Errorf("got the events %+v, want one of %s with a cost of %d", e, method, cost)
		}
	}
	answer, err := sashgrpc.UnaryServer(l, user)(ctx, nil, &grpc.UnaryServerInfo{FullMethod: unaryMethod},
		func(context.Context, any) (any, error) { return "answer", nil })
	if answer != "answer" || err != nil {
		t.Errorf("got %v, %v, want the answer of the handler", answer, err)
	}
}

// TestOptions: options choose calls by their method, and those of package nethttp know a call by its key, its method
// and its metadata too.
func TestOptions(t *testing.T) {
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-plan", "pro"))
	const always, twice = "[OK OK OK]", "[OK OK ResourceExhausted]"
	const once, never = "[OK ResourceExhausted ResourceExhausted]", "[Unavailable Unavailable Unavailable]"
	type options = []sashgrpc.Option
	for name, c := range map[string]struct {
		options options
		want    string
	}{
		"none":                   {nil, once},
		"SkipMethods":            {options{sashgrpc.SkipMethods("/a.B/C", unaryMethod)}, always},
		"two SkipMethods":        {options{sashgrpc.SkipMethods(unaryMethod), sashgrpc.SkipMethods("/a.B/C")}, always},
		"SkipMethods of another": {options{sashgrpc.SkipMethods("/a.B/C")}, once},
		"ForMethod":              {options{sashgrpc.ForMethod("/a.B/C", unaryMethod)}, once},
		"two ForMethods":         {options{sashgrpc.ForMethod(unaryMethod), sashgrpc.ForMethod("/a.B/C")}, once},
		"ForMethod of another":   {options{sashgrpc.ForMethod("/a.B/C")}, always},
		"a negative cost": {options{
			sashgrpc.WithCost(func(context.Context, sashgrpc.Call) int { return -1 }),
		}, never}, // the policy decides
		"Shadow":    {options{sashgrpc.Shadow()}, always},
		"SkipKeys":  {options{nethttp.SkipKeys(func(key string) bool { return key == "user:1" })}, always},
		"SkipPaths": {options{nethttp.SkipPaths("POST " + unaryMethod)}, always},
		"WithLimits": {options{nethttp.WithLimits(func(r *http.Request, _ string) ([]core.Limit, error) {
			if r.Header.Get("X-Plan") != "pro" {
				return nil, errors.New("no plan")
			}
			return []core.Limit{core.PerHour(2)}, nil
		})}, twice},
	} {
		l, _ := limiter(nil, core.PerHour(1))
		call := guarded(l, user, c.options...)[unaryMethod]
		var got []codes.Code
		for range 3 {
			_, err := call(ctx, "", succeeds)
			got = append(got, status.Code(err))
		}
		if got := fmt.Sprint(got); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// TestUnknownMethods: a method of UnknownServiceHandler, which clients invent, is no label. The key function gets it. A
// method that the server takes without its slash is limited as with it.
func TestUnknownMethods(t *testing.T) {
	l, events := limiter(nil, core.PerHour(1))
	key := func(_ context.Context, call sashgrpc.Call) (string, error) { return call.Method, nil }
	guard := sashgrpc.StreamServer(l, key, sashgrpc.ForMethod(streamMethod))
	for i, method := range []string{streamMethod, streamMethod[1:]} {
		err := guard(nil, stream{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: method},
			func(any, grpc.ServerStream) error { return nil })
		wantCode(t, err, []codes.Code{codes.OK, codes.ResourceExhausted}[i])
		if e := (*events)[i]; e.Label != "" || e.Key != streamMethod {
			t.Errorf("%s: got the label %q and the key %q, want none and %s", method, e.Label, e.Key, streamMethod)
		}
	}
}

// TestKey: functions for HTTP find the peer, the metadata, the method and the context of a call. A client over a unix
// socket and one over bufconn have no address, as doc.go says.
func TestKey(t *testing.T) {
	type own struct{}
	address := net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1})
	socket, memory := &net.UnixAddr{Name: "@"}, bufconn.Listen(1).Addr()
	for i, c := range []struct {
		of   keyfuncs.Func
		peer net.Addr
		want string
	}{
		{keyfuncs.RemoteIP, address, "ip:127.0.0.1"},
		{keyfuncs.RemoteIP, socket, ""},
		{keyfuncs.IP(keyfuncs.TrustUnixSocket()), socket, "ip:198.51.100.7"},
		{keyfuncs.RemoteIP, memory, ""},
		{keyfuncs.IP(keyfuncs.TrustUnixSocket()), memory, ""},
		{keyfuncs.RemoteIP, nil, ""},
		{keyfuncs.IP(keyfuncs.TrustHops(1)), address, "ip:198.51.100.7"},
		{keyfuncs.Header("X-Tenant"), address, "header:x-tenant:a"},
		{func(r *http.Request) (string, error) { return r.URL.Path + r.Context().Value(own{}).(string), nil }, address,
			"/a.B/C mine"},
	} {
		ctx := peer.NewContext(context.WithValue(t.Context(), own{}, " mine"), &peer.Peer{Addr: c.peer})
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs(
			"x-tenant", "a", "x-forwarded-for", "203.0.113.9", "x-forwarded-for", "198.51.100.7"))
		got, err := sashgrpc.Key(c.of)(ctx, sashgrpc.Call{Method: "/a.B/C"})
		if got != c.want || errors.Is(err, keyfuncs.ErrNoKey) != (c.want == "") {
			t.Errorf("%d: got %q, %v, want %q", i, got, err, c.want)
		}
	}
	if _, err := sashgrpc.Key(keyfuncs.RemoteIP)(t.Context(), sashgrpc.Call{}); !errors.Is(err, keyfuncs.ErrNoKey) {
		t.Errorf("without a peer: got %v, want ErrNoKey", err)
	}
}

// TestMisuse: what is given wrong is said when the program starts.
func TestMisuse(t *testing.T) {
	l, _ := limiter(nil, core.PerMinute(1))
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
					if got := fmt.Sprint(recover()); got != want {
						t.Errorf("%d: panicked with %s, want %s", i, got, want)
					}
				}()
				wrong()
			}()
		}
	}
}
