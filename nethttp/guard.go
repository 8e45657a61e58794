// Package nethttp limits the requests of an HTTP server. A [Guard] has a limiter and a key function. For each request
// it finds the client's key, asks the limiter, sets the header fields of the response, and calls the handler or writes
// a refusal. [Middleware] makes a guard. docs/nethttp.md shows all options.
//
//	mux.Handle("POST /login", nethttp.Middleware(login, keyfuncs.RemoteIP)(loginHandler))
//
// # What a client sees
//
// A response has the fields of [WithHeaders], set before the handler runs, if the decision has a limit. Nested guards
// decide one after the other, and the inner one replaces fields of the same name. The limiter's policy decides while
// the store fails, or where a function of [WithLimits], [WithLimiter] or [WithCost] fails or returns numbers that no
// limit may have: under [core.FailOpen] the request is served without limit fields. A refused request never reaches the
// handler. Its response has no fields of another guard's limit, and Cache-Control: no-store, and:
//
//	429  over the limit                    Retry-After, unless the request can never pass
//	503  the policy, core.FailClosed; or   Retry-After, 5 to 10 s unless WithOutageRetryAfter says
//	     the request's deadline is over    otherwise
//	499  the request's context was         no body; the client has left, whatever the policy
//	     canceled
//	401  the API key is missing, or was    WWW-Authenticate; the key function's error is a
//	     never issued                      keyfuncs.UnauthenticatedError
//	400  the client has no name            the key function's error matches keyfuncs.ErrNoKey
//	                                       or ErrBadRequest, or the key is empty
//	500  no decision is possible           the key function failed
//
// A [keyfuncs.RefusedError] of the key function is answered as its decision. The body is application/problem+json
// (RFC 9457) unless [WithRefusal] writes another. It holds no input of the client and no text of an error.
package nethttp

import (
	"net/http"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/errs"
	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// Guard admits or refuses requests. Its configuration does not change; it is safe for concurrent use. The handler gets
// the ResponseWriter of the server, or with [CountWhen] and [CostAfter] one that wraps it: http.Flusher, http.Hijacker,
// io.ReaderFrom and http.ResponseController work with both. The one that wraps is always an http.Flusher, and its Flush
// does nothing where the server cannot flush.
type Guard struct {
	guard *guard.Guard
	key   func(*http.Request) (string, error)
}

// New returns a guard that limits requests by limiter, each under the key that the function key returns for it; see
// package keyfuncs. An error names the wrong argument and the right form of it.
func New(limiter *core.Limiter, key func(*http.Request) (string, error), opts ...Option) (*Guard, error) {
	if key == nil {
		return nil, guard.ErrNoKeyFunction
	}
	g, err := guard.New(limiter, nil, opts)
	if err != nil {
		return nil, err
	}
	return &Guard{g, key}, nil
}

// Middleware returns the [Guard.Handler] of a guard by [New]. It panics if New returns an error: while the program
// starts, never at request time.
func Middleware(limiter *core.Limiter, key func(*http.Request) (string, error),
	opts ...Option) func(http.Handler) http.Handler {
	return core.Must(New(limiter, key, opts...)).Handler
}

// Handler returns a handler that calls next for admitted requests. If next is an [http.ServeMux], the observer's label
// is the pattern of next for the request. Handler panics if next is nil.
func (g *Guard) Handler(next http.Handler) http.Handler {
	if errs.IsNil(next) {
		panic("sash: the handler behind the guard is " + errs.NilName(next) + ": give an http.Handler")
	}
	if mux, ok := next.(*http.ServeMux); ok {
		g = &Guard{g.guard.WithLabel(patternIn(mux)), g.key}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := guard.Visit{W: w, R: r, Label: r.Pattern, HasHandler: true}
		if !g.guard.Admit(&v, func() (string, error) { return g.key(r) }) {
			_ = v.Refuse()
			return
		}
		_ = v.Serve(func(w http.ResponseWriter, r *http.Request) error {
			next.ServeHTTP(w, r)
			return nil
		}, nil)
	})
}

// Check decides one request, for any framework that is built on net/http. If it returns true, the limit fields are set
// and the caller serves the request. If it returns false, the response is complete.
//
// The observer's label is r.Pattern, which is empty outside a ServeMux, or that of [WithLabel].
func (g *Guard) Check(w http.ResponseWriter, r *http.Request) bool {
	v := guard.Visit{W: w, R: r, Label: r.Pattern}
	if g.guard.Admit(&v, func() (string, error) { return g.key(r) }) {
		return true
	}
	_ = v.Refuse()
	return false
}
