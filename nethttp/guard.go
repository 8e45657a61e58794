// Package nethttp limits the requests of an HTTP server. It is where a request
// gets its client's name, the limiter its question, the response its headers,
// and the handler its turn or the client a refusal; the adapters for other
// frameworks build on it and decide nothing themselves.
//
//	mux.Handle("POST /login", nethttp.Middleware(login, keyfuncs.RemoteIP)(loginHandler))
//
// # What a client sees
//
// Every limited response carries the fields of [WithHeaders], set before the
// handler runs. A refused request never reaches the handler; its response has
// Cache-Control: no-store, and:
//
//	429  over the limit          Retry-After, unless the request can never pass
//	503  no store, [core.FailClosed]   Retry-After: 5, unless the limiter knows better
//	503  the request's context has ended   no body
//	400  the client has no name  the key function's error matches keyfuncs.ErrNoKey, or the key is empty
//	500  no decision is possible  the key function failed, or [WithCost] gave a negative cost
//
// The body is application/problem+json (RFC 9457), or HTML or plain text for
// clients that ask for those and not for JSON. [WithRefusal] replaces it. No body
// holds input of the client, its key, or the text of an error.
//
// Under [core.FailOpen] a request is served without limit fields while the store
// cannot be asked: the numbers are unknown. Decisions of a [core.Fallback] are
// decisions like others.
//
// # Limiters inside limiters
//
// Each is a decision of its own, and together they leave the fields of one:
// those of a refusal, else of the limit with less remaining, then of the one
// that takes longer to come back, then of the outer. This holds whatever
// formats they write. A guard that has no numbers, or WithHeaders(), leaves an
// outer guard's fields alone; the latter removes them when it refuses.
//
// # CORS
//
// A preflight is a request like any other. Put a CORS middleware outside: then
// preflights do not come here, and browsers let scripts read a refusal, which
// they hide if it has no CORS fields. To name the limit fields for scripts, see
// [headers.Expose].
package nethttp

import (
	"errors"
	"net/http"

	"github.com/sashlimit/sash/core"
)

// Guard admits or refuses requests. It is immutable and safe for concurrent
// use. It hands the ResponseWriter on as it is: http.Flusher, http.Hijacker,
// io.ReaderFrom and http.ResponseController work as without it.
type Guard struct {
	*Decider
	key func(*http.Request) (string, error)
}

// New returns a guard that asks limiter about each request, under the name
// that key gives to its client; see package keyfuncs. An error says which
// argument is wrong and what to give instead.
func New(limiter *core.Limiter, key func(*http.Request) (string, error), opts ...Option) (*Guard, error) {
	if key == nil {
		return nil, errors.New("sash: the key function is nil: give one, such as keyfuncs.RemoteIP")
	}
	d, err := NewDecider(limiter, opts...)
	if err != nil {
		return nil, err
	}
	return &Guard{d, key}, nil
}

// Middleware is [New] and [Guard.Handler] in one. It panics where New returns
// an error: while the program starts, never at request time.
func Middleware(limiter *core.Limiter, key func(*http.Request) (string, error), opts ...Option) func(http.Handler) http.Handler {
	g, err := New(limiter, key, opts...)
	if err != nil {
		panic(err)
	}
	return g.Handler
}

// Handler returns a handler that calls next for admitted requests. It panics if
// next is nil.
func (g *Guard) Handler(next http.Handler) http.Handler {
	if next == nil {
		panic("sash: the handler behind the guard is nil")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.Check(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

// Check decides one request, for any framework that is built on net/http. True
// means go on: the limit fields are set. False means that the response is
// written completely and nothing may be added.
//
// The observer's label is r.Pattern, which is empty outside a ServeMux.
func (g *Guard) Check(w http.ResponseWriter, r *http.Request) bool {
	return g.Admit(w, r, r.Pattern, func() (string, error) { return g.key(r) })
}
