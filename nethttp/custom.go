package nethttp

import (
	"bufio"
	"net"
	"net/http"

	"github.com/sashlimit/sash/core"
)

// writeCustomRefusal calls the function of [WithRefusal], if there is one, and
// reports whether the function has begun a response. If not, the caller must write
// the default response, since net/http would send a 200.
func (g *Decider) writeCustomRefusal(w http.ResponseWriter, r *http.Request, d core.Decision) bool {
	if g.customRefusal == nil {
		return false
	}
	custom := RefusalWriter{ResponseWriter: w, Status: Status(d)}
	g.customRefusal(&custom, r, d)
	return custom.begun
}

// RefusalWriter is the ResponseWriter for a function of the user's that writes a
// refusal: it knows whether a response has begun. An interim response, such as
// 103 Early Hints, does not begin one. It is for adapters; [WithRefusal] uses one already.
type RefusalWriter struct {
	http.ResponseWriter
	Status int // what a body or a flush without a status gets; 0: the 200 of net/http
	begun  bool
}

// Begun reports whether the response has a status, a body or a flush, or the
// connection was hijacked.
func (w *RefusalWriter) Begun() bool { return w.begun }

// WriteHeader implements http.ResponseWriter.
func (w *RefusalWriter) WriteHeader(status int) {
	if !WriteInterim(w.ResponseWriter, status) {
		w.begun = true
		w.ResponseWriter.WriteHeader(status)
	}
}

// begin writes the status of a response that begins without one.
func (w *RefusalWriter) begin() {
	if !w.begun && w.Status != 0 {
		w.ResponseWriter.WriteHeader(w.Status)
	}
	w.begun = true
}

// Write implements http.ResponseWriter.
func (w *RefusalWriter) Write(b []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(b)
}

// FlushError implements what http.ResponseController looks for.
func (w *RefusalWriter) FlushError() error {
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush implements http.Flusher.
func (w *RefusalWriter) Flush() { _ = w.FlushError() }

// Hijack implements http.Hijacker.
func (w *RefusalWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.begun = true
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// Unwrap returns the ResponseWriter inside, for http.ResponseController.
func (w *RefusalWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteInterim reports whether status is that of an interim response, 1xx but
// 101, and sends it if so. The interim response goes to the innermost
// ResponseWriter, because the ones of frameworks take it for the response. So does an
// http.TimeoutHandler: inside one, send none.
func WriteInterim(w http.ResponseWriter, status int) bool {
	if !isInterim(status) {
		return false
	}
	for {
		outer, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			w.WriteHeader(status)
			return true
		}
		w = outer.Unwrap()
	}
}

// isInterim reports whether status is that of an interim response.
func isInterim(status int) bool {
	return status >= 100 && status < 200 && status != http.StatusSwitchingProtocols
}
