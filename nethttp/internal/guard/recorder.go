package guard

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"net"
	"net/http"
	"reflect"
)

// recorder is a ResponseWriter that records the status and the size of a response: that of a handler, if an option
// needs it, or of a function that writes a refusal. The handler or function gets the ResponseWriter of wrap.
type recorder struct {
	http.ResponseWriter
	defaultStatus int // of a refusal without a status; 0 for that of net/http
	status        int // 0 before one is sent
	size          int64
	hijacked      bool
}

// sent returns the status that was sent or set, or 0, whether it was sent, and the number of bytes of the body. It asks
// the inner ResponseWriter if that has the methods, because it may send a status late, as gin's does.
func (w *recorder) sent() (status int, written bool, size int64) {
	type responseState interface {
		Status() int
		Written() bool
		Size() int
	}
	if inner, ok := w.ResponseWriter.(responseState); ok {
		return inner.Status(), inner.Written(), int64(max(0, inner.Size()))
	}
	return w.status, w.status != 0, w.size
}

// started reports whether the response has a status, a body or a flush, or the connection was hijacked. An interim
// response, such as 103 Early Hints, does not start it.
func (w *recorder) started() bool {
	_, written, _ := w.sent()
	return written || w.status != 0 || w.hijacked
}

// finalStatus returns the status for the functions of CountWhen and CostAfter, and reports whether it is known.
// panicked and ended say that the handler has panicked, and that the context of the request has ended.
func (w *recorder) finalStatus(panicked, ended bool) (status int, known bool) {
	status, written, _ := w.sent()
	status = cmp.Or(status, http.StatusOK)
	switch {
	case w.hijacked:
		return http.StatusSwitchingProtocols, true
	case ended && mayTimeOut(w.ResponseWriter):
		return 0, false
	case written:
		return status, true
	case ended && (panicked || status == http.StatusOK):
		return 0, false
	case panicked:
		return http.StatusInternalServerError, true
	}
	return status, true
}

// record adds n bytes of a body, and sets the status 200 of a response without one.
func (w *recorder) record(n int64) {
	w.size += n
	if w.status == 0 {
		w.status = http.StatusOK
	}
}

// writeDefault writes the status of a refusal that has none.
func (w *recorder) writeDefault() {
	if w.status == 0 && w.defaultStatus != 0 {
		w.WriteHeader(w.defaultStatus)
	}
}

// WriteHeader implements http.ResponseWriter. An interim response, 1xx except 101, goes to the innermost
// ResponseWriter, because those of frameworks take it for the final one.
func (w *recorder) WriteHeader(status int) {
	if 100 <= status && status < 200 && status != http.StatusSwitchingProtocols {
		innermost(w.ResponseWriter).WriteHeader(status)
		return
	}
	w.ResponseWriter.WriteHeader(status) // first, since it panics on an invalid status
	if w.status == 0 {
		w.status = status
	}
}

// innermost returns the ResponseWriter inside all others that w wraps.
func innermost(w http.ResponseWriter) http.ResponseWriter {
	for {
		unwrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = unwrapper.Unwrap()
	}
}

// mayTimeOut reports whether w is the ResponseWriter of an http.TimeoutHandler, which sends a response after its
// handler has returned, and drops it after the timeout.
func mayTimeOut(w http.ResponseWriter) bool {
	return reflect.TypeOf(innermost(w)).String() == "*http.timeoutWriter"
}

// Write implements http.ResponseWriter.
func (w *recorder) Write(b []byte) (int, error) {
	w.writeDefault()
	n, err := w.ResponseWriter.Write(b)
	w.record(int64(n))
	return n, err
}

// ReadFrom implements io.ReaderFrom, so that net/http can send a file by sendfile. An empty src does not start the
// response.
func (w *recorder) ReadFrom(src io.Reader) (int64, error) {
	if w.defaultStatus != 0 {
		return io.Copy(struct{ io.Writer }{w}, src) // Write sets the status
	}
	n, err := io.Copy(w.ResponseWriter, src)
	if n > 0 {
		w.record(n)
	}
	return n, err
}

// FlushError implements Flush of http.ResponseController.
func (w *recorder) FlushError() error {
	w.writeDefault()
	err := http.NewResponseController(w.ResponseWriter).Flush()
	if !errors.Is(err, http.ErrNotSupported) {
		w.record(0)
	}
	return err
}

// Unwrap returns the ResponseWriter inside, for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush implements http.Flusher.
func (w *recorder) Flush() { _ = w.FlushError() }

// hijacker adds http.Hijacker to a recorder.
type hijacker struct{ *recorder }

// Hijack implements http.Hijacker.
func (w hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.hijacked = w.hijacked || err == nil
	return conn, rw, err
}

// wrap makes w the recorder of inner. It returns w with http.Hijacker if the innermost ResponseWriter has it, since
// handlers test for this interface.
func (w *recorder) wrap(inner http.ResponseWriter) http.ResponseWriter {
	w.ResponseWriter = inner
	if mayHijack(inner) {
		return hijacker{w}
	}
	return w
}
