package nethttp

import (
	"bufio"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
)

// recorder is a ResponseWriter that notes the status and the size of a response. The
// handler gets what exposed returns.
type recorder struct {
	http.ResponseWriter
	status   int // 0: none was sent
	size     int64
	hijacked bool
}

// Status, Written, Size and Hijacked implement Response.
func (w *recorder) Status() int    { return w.status }
func (w *recorder) Written() bool  { return w.status != 0 }
func (w *recorder) Size() int      { return int(min(w.size, math.MaxInt)) }
func (w *recorder) Hijacked() bool { return w.hijacked }

// begin notes the 200 of a response that begins without a status.
func (w *recorder) begin() {
	if w.status == 0 {
		w.status = http.StatusOK
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(status int) {
	if WriteInterim(w.ResponseWriter, status) {
		return
	}
	w.ResponseWriter.WriteHeader(status) // first, since it panics on a status that is none
	if w.status == 0 {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *recorder) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	w.begin()
	w.size += int64(n)
	return n, err
}

// WriteString implements io.StringWriter.
func (w *recorder) WriteString(s string) (int, error) {
	n, err := io.WriteString(w.ResponseWriter, s)
	w.begin()
	w.size += int64(n)
	return n, err
}

// ReadFrom implements io.ReaderFrom, so that net/http can send a file by sendfile. Without
// a byte to read, a response has not begun.
func (w *recorder) ReadFrom(src io.Reader) (int64, error) {
	n, err := io.Copy(w.ResponseWriter, src)
	if n > 0 {
		w.begin()
	}
	w.size += n
	return n, err
}

// FlushError implements what http.ResponseController looks for.
func (w *recorder) FlushError() error {
	err := http.NewResponseController(w.ResponseWriter).Flush()
	if !errors.Is(err, http.ErrNotSupported) {
		w.begin()
	}
	return err
}

// Unwrap returns the ResponseWriter inside, for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// flusher and hijacker add one interface each to a recorder.
type (
	flusher  struct{ *recorder }
	hijacker struct{ *recorder }
)

// Flush implements http.Flusher.
func (w flusher) Flush() { _ = w.FlushError() }

// Hijack implements http.Hijacker.
func (w hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.hijacked = w.hijacked || err == nil
	return conn, rw, err
}

// exposed returns w with those of the interfaces http.Flusher and http.Hijacker that the
// ResponseWriter inside has, itself or in what it wraps: a handler asks for them to find out
// what the server can do.
func (w *recorder) exposed() http.ResponseWriter {
	flushes, hijacks := has[http.Flusher](w.ResponseWriter), has[http.Hijacker](w.ResponseWriter)
	type r = *recorder
	switch {
	case flushes && hijacks: // HTTP/1
		return struct {
			r
			flusher
			hijacker
		}{w, flusher{w}, hijacker{w}}
	case flushes: // HTTP/2
		return struct {
			r
			flusher
		}{w, flusher{w}}
	case hijacks:
		return struct {
			r
			hijacker
		}{w, hijacker{w}}
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
