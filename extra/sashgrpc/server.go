package sashgrpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
)

// UnaryServer returns an interceptor that admits or refuses the unary calls of a server, by the name that key gives
// to their clients. It panics, while the program starts, if an argument is wrong, and says what to give instead; so
// do StreamServer and UnaryClient.
func UnaryServer(limiter *core.Limiter, key KeyFunc, opts ...Option) grpc.UnaryServerInterceptor {
	serve := newServer(limiter, key, opts)
	return func(ctx context.Context, message any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		return serve(ctx, Call{info.FullMethod, message}, true, func() (any, error) { return next(ctx, message) })
	}
}

// StreamServer is [UnaryServer] for streams. A stream counts once, at its beginning, however many messages it has;
// [core.Limiter.Wait] limits messages. A stream of grpc.UnknownServiceHandler has no label, since clients choose its
// method: nethttp.WithLabel can name the methods that a proxy knows, by the path of the request.
func StreamServer(limiter *core.Limiter, key KeyFunc, opts ...Option) grpc.StreamServerInterceptor {
	serve := newServer(limiter, key, opts)
	return func(srv any, in grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		known := srv != nil // it is nil for grpc.UnknownServiceHandler, whose methods clients invent
		proceed := func() (any, error) { return nil, next(srv, in) }
		_, err := serve(in.Context(), Call{info.FullMethod, nil}, known, proceed)
		return err
	}
}

// handler calls the next interceptor, or the method.
type handler func() (any, error)

// visit is a call with its guard of package nethttp. It is a ResponseWriter that ignores all output, and a value of the
// request's context.
type visit struct {
	Call
	others, named bool // the options ForMethod name others, and this method
	next          handler
	answer        any        // of next
	err           error      // of next, or the refusal
	code          codes.Code // of next; until then that of a panic
}

type visitKey struct{}

func visitOf(r *http.Request) *visit         { return r.Context().Value(visitKey{}).(*visit) }
func (v *visit) Header() http.Header         { return http.Header{} }
func (v *visit) Write(b []byte) (int, error) { return len(b), nil }
func (v *visit) WriteHeader(int)             {}

// newServer returns a function that calls next if a call is admitted. It returns the results of next, or the refusal.
// The method of a known call is its label.
func newServer(
	limiter *core.Limiter, key KeyFunc, opts []Option,
) func(ctx context.Context, call Call, known bool, next handler) (any, error) {
	must(key != nil, "the key function is nil: give one, such as sashgrpc.Key(keyfuncs.RemoteIP)")
	name := func(r *http.Request) (string, error) { return key(r.Context(), visitOf(r).Call) }
	guard := nethttp.Middleware(limiter, name, append(slices.Clone(opts),
		nethttp.Skip(unnamed), nethttp.WithHeaders(), nethttp.WithRefusal(refuse))...)(http.HandlerFunc(pass))
	return func(ctx context.Context, call Call, known bool, next handler) (any, error) {
		call.Method = "/" + strings.TrimPrefix(call.Method, "/") // grpc-go before 1.79.3 serves it without a slash too
		v := &visit{Call: call, next: next, code: codes.Internal}
		r := requestOf(context.WithValue(ctx, visitKey{}, v), call)
		if !known {
			r.Pattern = ""
		}
		guard.ServeHTTP(v, r)
		return v.answer, v.err
	}
}

// unnamed reports whether the options ForMethod name only other methods.
func unnamed(r *http.Request) bool { return visitOf(r).others && !visitOf(r).named }

// pass is the handler behind the guard.
func pass(_ http.ResponseWriter, r *http.Request) {
	v := visitOf(r)
	v.answer, v.err = v.next()
	if v.code = status.Code(v.err); v.code == codes.Unknown {
		v.code = status.FromContextError(v.err).Code() // as the server does
	}
}

// refusals and reasons are the errors of refused calls by the status of HTTP. They are the same for every client.
var refusals = map[int]*status.Status{
	429: status.New(codes.ResourceExhausted, "the limit on calls is reached"),
	503: status.New(codes.Unavailable, "the limit on calls cannot be checked at the moment"),
	400: status.New(codes.InvalidArgument, "the call does not identify its client"),
	401: status.New(codes.Unauthenticated, "the call needs a credential that is known here, such as an API key"),
	500: status.New(codes.Internal, "the limit on calls could not be checked"),
}
var reasons = map[int]string{429: "RATE_LIMIT_EXCEEDED", 503: "RATE_LIMITER_UNAVAILABLE",
	400: "CLIENT_UNIDENTIFIED", 401: "UNAUTHENTICATED", 500: "INTERNAL_ERROR"}

// refuse sets the error and the trailer of a call that was refused by d.
func refuse(w http.ResponseWriter, r *http.Request, d core.Decision) {
	v, why := visitOf(r), nethttp.Status(d)
	w.WriteHeader(why)                                                // otherwise the guard writes a body
	if why == 499 || why == 503 && !errors.Is(d.Err, core.ErrStore) { // the context has ended
		v.err = status.FromContextError(d.Err).Err()
		return
	}
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{
		Reason: reasons[why], Domain: "github.com/sashlimit/sash", Metadata: map[string]string{"limit": d.Limit.Name},
	}}
	if d.RetryAfter > 0 {
		pushback := "-1" // do not retry
		if d.RetryAfter != core.Never {
			pushback = fmt.Sprint((d.RetryAfter + time.Millisecond - 1).Milliseconds())
			details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryAfter)})
		}
		_ = grpc.SetTrailer(r.Context(), metadata.Pairs("grpc-retry-pushback-ms", pushback))
	}
	s, err := refusals[why].WithDetails(details...)
	v.err = cmp.Or(err, s.Err())
}

// Call is the argument of key functions and options.
type Call struct {
	Method  string // with its service, such as "/auth.Auth/Login"
	Message any    // the request, not to be changed; nil for a stream
}

// KeyFunc names the client of a call, as the functions of package keyfuncs do for HTTP; of an outgoing call it names
// what has the limit, such as the server. It is called by many goroutines at once.
type KeyFunc func(ctx context.Context, call Call) (string, error)

// Key makes a key function for calls of one for HTTP, such as keyfuncs.RemoteIP, so that a client has one name in both.
// The function gets a request with the context of the call, its peer as RemoteAddr, its method as the path, and its
// metadata as header fields. Key panics if the function is nil.
func Key(of func(*http.Request) (string, error)) KeyFunc {
	must(of != nil, "Key(nil): give a function, such as keyfuncs.RemoteIP")
	return func(ctx context.Context, call Call) (string, error) { return of(requestOf(ctx, call)) }
}

// requestOf returns an HTTP request with the context, method, peer and metadata of a call.
func requestOf(ctx context.Context, call Call) *http.Request {
	r := &http.Request{Method: "POST", Pattern: call.Method, URL: &url.URL{Path: call.Method}, Header: http.Header{}}
	fields, _ := metadata.FromIncomingContext(ctx)
	for name, values := range fields {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		r.RemoteAddr = p.Addr.String()
	}
	return r.WithContext(ctx)
}

// Option is an option of [UnaryServer] and [StreamServer]. Options of package nethttp that are not about the response
// work too, such as SkipKeys, WithLimits, WithRetryJitter and WithOutageRetryAfter: their request is the one of [Key].
type Option = nethttp.Option

// ForMethod limits only the calls of these methods, compared byte for byte. Several ForMethods add up. ForMethod and
// SkipMethods panic if a method is none.
func ForMethod(methods ...string) Option {
	mustBeMethods(methods)
	return nethttp.Skip(func(r *http.Request) bool {
		v := visitOf(r)
		v.others, v.named = true, v.named || slices.Contains(methods, r.URL.Path)
		return false
	})
}

// SkipMethods excludes methods, compared byte for byte: their calls touch no store. Several SkipMethods add up.
func SkipMethods(methods ...string) Option {
	mustBeMethods(methods)
	return nethttp.Skip(func(r *http.Request) bool { return slices.Contains(methods, r.URL.Path) })
}

// WithCost sets the cost of a call in units; the default is 1. A cost of 0 is always admitted and counts nothing; of a
// negative one the limiter's policy decides. It is called by many goroutines at once.
func WithCost(cost func(ctx context.Context, call Call) int) Option {
	must(cost != nil, "WithCost(nil): give a function, or leave the option out")
	return nethttp.WithCost(func(r *http.Request) int { return cost(r.Context(), visitOf(r).Call) })
}

// CountWhen counts a call only if counted returns true for it, such as the failed ones of a login by their code. It
// does so as [nethttp.CountWhen] does: the call is counted before its handler, and given back after it, a stream at
// its end. A call that finds the limit filled waits for calls of the client that are under way, until none was given
// back for a second. The code is INTERNAL if the handler has panicked. If the call's context has ended, counted is not
// called, and the call stays counted. counted is called by many goroutines at once.
func CountWhen(counted func(ctx context.Context, call Call, code codes.Code) bool) Option {
	must(counted != nil, "CountWhen(nil): give a function, or leave the option out")
	return nethttp.CountWhen(func(r *http.Request, _ int) bool {
		return counted(r.Context(), visitOf(r).Call, visitOf(r).code)
	})
}

// Shadow tests a limit, as [nethttp.Shadow] does: every call is decided, counted and observed, and then admitted
// whatever the decision.
func Shadow() Option { return nethttp.Shadow() }

// must panics if an argument is wrong.
func must(ok bool, text string) {
	if !ok {
		panic("sash: " + text)
	}
}

var method = regexp.MustCompile(`^/[\w.]+/\w+$`)

// mustBeMethods panics if methods is empty or has an invalid method.
func mustBeMethods(methods []string) {
	wrong := slices.ContainsFunc(methods, func(m string) bool { return !method.MatchString(m) })
	must(len(methods) > 0 && !wrong, fmt.Sprintf("the methods %q: give each with its service and without wildcards, "+
		`as generated code has it, such as "/auth.Auth/Login"`, methods))
}
