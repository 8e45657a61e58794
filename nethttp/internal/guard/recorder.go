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

// recorder is a ResponseWriter that notes the status and the size of a response: for the handlers that an option looks
// at, and for functions that write a refusal. These get what around returns.
type recorder struct {
	http.ResponseWriter
	implied  int // the status of a refusal that begins without one; 0: that of net/http
	status   int // 0: none was sent
	size     int64
	hijacked bool
	both     flusherHijacker // what around returns on HTTP/1, without memory of its own
}

// sent returns the status that was sent or is set, 0 if none, whether it was sent, and the bytes of the body. A
// ResponseWriter inside that knows all this is asked, because it may send a status late, as gin's does.
func (w *recorder) sent() (status int, written bool, size int64) {
	type knows interface {
		Status() int
		Written() bool
		Size() int
	}
	if known, ok := w.ResponseWriter.(knows); ok {
		return known.Status(), known.Written(), int64(max(0, known.Size()))
	}
	return w.status, w.status != 0, w.size
}

// begun reports whether the response has a status, a body or a flush, or the connection was hijacked. An interim
// response, such as 103 Early Hints, does not begin it.
func (w *recorder) begun() bool {
	_, written, _ := w.sent()
	return written || w.status != 0 || w.hijacked
}

// finalStatus returns the status for the function of an option, and reports whether it is
// known; see CountWhen. ended says that the context of the request has ended.
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

// begin notes the bytes of a body, and the 200 of a response that begins without a status.
func (w *recorder) begin(bytes int64) {
	w.size += bytes
	if w.status == 0 {
		w.status = http.StatusOK
	}
}

// imply writes the status of a refusal that begins without one.
func (w *recorder) imply() {
	if w.status == 0 && w.implied != 0 {
		w.WriteHeader(w.implied)
	}
}

// WriteHeader implements http.ResponseWriter. An interim response, 1xx but 101, goes to the innermost ResponseWriter,
// because the ones of frameworks take it for the response. So does an http.TimeoutHandler: inside one, send none.
func (w *recorder) WriteHeader(status int) {
	if 100 <= status && status < 200 && status != http.StatusSwitchingProtocols {
		innermost(w.ResponseWriter).WriteHeader(status)
		return
	}
	w.ResponseWriter.WriteHeader(status) // first, since it panics on a status that is none
	if w.status == 0 {
		w.status = status
	}
}

// innermost returns the ResponseWriter inside all others that w wraps.
func innermost(w http.ResponseWriter) http.ResponseWriter {
	for {
		outer, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = outer.Unwrap()
	}
}

// mayTimeOut reports whether w is that of an http.TimeoutHandler: nothing of a response is sent before its handler has
// returned, and nothing at all if that comes too late.
func mayTimeOut(w http.ResponseWriter) bool {
	return reflect.TypeOf(innermost(w)).String() == "*http.timeoutWriter"
}

// Write implements http.ResponseWriter.
func (w *recorder) Write(b []byte) (int, error) {
	w.imply()
	n, err := w.ResponseWriter.Write(b)
	w.begin(int64(n))
	return n, err
}

// WriteString implements io.StringWriter.
func (w *recorder) WriteString(s string) (int, error) {
	w.imply()
	n, err := io.WriteString(w.ResponseWriter, s)
	w.begin(int64(n))
	return n, err
}

// ReadFrom implements io.ReaderFrom, so that net/http can send a file by sendfile. Without
// a byte to read, a response has not begun.
func (w *recorder) ReadFrom(src io.Reader) (int64, error) {
	if w.implied != 0 {
		return io.Copy(struct{ io.Writer }{w}, src) // by Write, which knows the status
	}
	n, err := io.Copy(w.ResponseWriter, src)
	if n > 0 {
		w.begin(n)
	}
	return n, err
}

// FlushError implements what http.ResponseController looks for.
func (w *recorder) FlushError() error {
	w.imply()
	err := http.NewResponseController(w.ResponseWriter).Flush()
	if !errors.Is(err, http.ErrNotSupported) {
		w.begin(0)
	}
	return err
}

// Unwrap returns the ResponseWriter inside, for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// flusher and hijacker add one interface each to a recorder, and flusherHijacker both.
type (
	flusher         struct{ *recorder }
	hijacker        struct{ *recorder }
	flusherHijacker struct {
		*recorder
		flusher
		hijacker
	}
)

// Flush implements http.Flusher.
func (w flusher) Flush() { _ = w.FlushError() }

// Hijack implements http.Hijacker.
func (w hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.hijacked = w.hijacked || err == nil
	return conn, rw, err
}

// around makes w the recorder of inner. It returns w with http.Flusher and http.Hijacker where inner,
// or a ResponseWriter inside it, has them: a handler asks for them to find out what the server can do.
func (w *recorder) around(inner http.ResponseWriter) http.ResponseWriter {
	w.ResponseWriter = inner
	flushes, hijacks := has[http.Flusher](w.ResponseWriter), has[http.Hijacker](w.ResponseWriter)
	switch {
	case flushes && hijacks: // HTTP/1
		w.both = flusherHijacker{w, flusher{w}, hijacker{w}}
		return &w.both
	case flushes: // HTTP/2
		return flusher{w}
	case hijacks:
		return hijacker{w}
	}
	return w
}

// has reports whether w, or one of the ResponseWriters that it wraps, is a T.
func has[T any](w http.ResponseWriter) bool {
	for {
		if _, ok := w.(T); ok {
			return true
		}
		outer, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return false
		}
		w = outer.Unwrap()
	}
}
