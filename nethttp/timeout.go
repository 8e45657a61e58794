package nethttp

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/sashlimit/sash/internal/errs"
)

// TimeoutHandler is [http.TimeoutHandler] for use between a guard and guards
// inside it. The handler of an http.TimeoutHandler sees an empty header, which is
// copied over the outer one afterwards, so that a guard inside does not know
// what an outer guard wrote. The handler that TimeoutHandler returns hands on what
// the outer guard wrote.
//
// [Guard.Handler] does the same for an http.TimeoutHandler that it is given
// itself. With anything else between the two, such as a ServeMux, use this function
// to leave the fields of the tighter limit, or http.TimeoutHandler to leave the
// fields of the inner limit; either is one set. A handler that runs into the timeout
// leaves the outer guard's fields.
//
// TimeoutHandler panics if h is nil, or if dt is not positive, when every request would time
// out.
func TimeoutHandler(h http.Handler, dt time.Duration, msg string) http.Handler {
	if errs.IsNil(h) {
		panic("sash: the handler of TimeoutHandler is " + errs.NilName(h) + ": give an http.Handler")
	}
	if dt <= 0 {
		panic(fmt.Sprintf("sash: TimeoutHandler has the time %v: give a positive one, such as 10*time.Second", dt))
	}
	return handOnHeader(http.TimeoutHandler(h, dt, msg))
}

var timeoutHandlerType = reflect.TypeOf(http.TimeoutHandler(nil, 0, ""))

// timeoutWriterType returns the type of the ResponseWriter that an
// http.TimeoutHandler gives to its handler.
var timeoutWriterType = sync.OnceValue(func() (t reflect.Type) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { t = reflect.TypeOf(w) })
	http.TimeoutHandler(h, 1<<63-1, "").ServeHTTP(nowhere{}, new(http.Request))
	return t
})

// nowhere is a ResponseWriter that writes nothing.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) WriteHeader(int)             {}

// insideTimeoutHandler reports whether w is the ResponseWriter of an
// http.TimeoutHandler's handler, or wraps it.
func insideTimeoutHandler(w http.ResponseWriter) bool {
	return reflect.TypeOf(innermost(w)) == timeoutWriterType()
}

// innermost returns the ResponseWriter that w wraps, through all its wrappers.
func innermost(w http.ResponseWriter) http.ResponseWriter {
	for {
		outer, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = outer.Unwrap()
	}
}

// headerKey is the key of the context value that outerHeader reads.
type headerKey struct{}

// outerHeader returns a copy of the header outside the http.TimeoutHandler that r
// has come through, and reports whether there is one.
func outerHeader(r *http.Request) (http.Header, bool) {
	h, ok := r.Context().Value(headerKey{}).(http.Header)
	return h, ok
}

// handOnHeader returns a handler that calls next, an http.TimeoutHandler, with a
// copy of the response's header in the request's context. A guard in next may
// run when the header outside is written already, so that it needs a copy.
func handOnHeader(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header().Clone()
		if outer, ok := outerHeader(r); ok { // two TimeoutHandlers: combine the headers as the outer one will
			outer = maps.Clone(outer)
			maps.Copy(outer, h)
			h = outer
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), headerKey{}, h)))
	})
}
