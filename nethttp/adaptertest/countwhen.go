package adaptertest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// outcomes are handlers, with the status for CountWhen, or 0 for the status of the client. refusal is the client's
// response if the handler is a function of WithRefusal: the status, or 0 if the connection ends without a response, and
// the body, or "?" for any. It is empty if the server logs, or frameworks differ.
var outcomes = []struct {
	name    string
	handler http.HandlerFunc
	status  int
	refusal string
}{
	{"nothing", func(http.ResponseWriter, *http.Request) {}, 200, "429 ?"},
	{"a body", page, 200, "429 page"},
	{"a string", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") }, 200, "429 page"},
	{"a copy", func(w http.ResponseWriter, _ *http.Request) { copyText(w, "page") }, 200, "429 page"},
	{"a copy of nothing, then 401", func(w http.ResponseWriter, _ *http.Request) {
		copyText(w, "")
		w.WriteHeader(401)
	}, 401, "401 "},
	{"a flush", func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }, 200, "429 "},
	{"401", status(401), 401, "401 "},
	{"204", status(204), 204, "204 "},
	{"401 and a body", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401); page(w, r) },
		401, "401 page"},
	{"a body, then a status", func(w http.ResponseWriter, r *http.Request) { page(w, r); w.WriteHeader(401) }, 200, ""},
	{"two statuses", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401); w.WriteHeader(200) }, 0, ""},
	{"early hints", status(103), 200, "429 ?"},
	{"early hints, then a body", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(103)
		page(w, r)
	}, 200, "429 page"},
	{"early hints, then 401", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(103)
		w.WriteHeader(401)
	}, 0, ""},
	{"hijacked", hijack, 101, "101 mine"},
	{"hijacked, then panic", func(w http.ResponseWriter, r *http.Request) { hijack(w, r); panic("handler") }, 101, ""},
	{"panic", func(http.ResponseWriter, *http.Request) { panic("handler") }, 500, "0 "},
	{"abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 500, "0 "},
	{"401, then abort", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(401)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}, 401, "401 "},
}

// copyText copies text to w by io.Copy, from a reader without a WriteTo.
func copyText(w io.Writer, text string) {
	_, _ = io.Copy(w, io.LimitReader(strings.NewReader(text), 1<<20))
}

func hijack(w http.ResponseWriter, _ *http.Request) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_, _ = io.WriteString(conn, "HTTP/1.1 101 \r\nConnection: Upgrade\r\nUpgrade: my\r\n\r\nmine")
		conn.Close()
	}
}

// countWhen checks that CountWhen is called once for each request, with the status of the client, and that a unit is
// given back if it returns false.
func countWhen(t *testing.T, adapter Adapter) {
	for _, c := range outcomes {
		t.Run(c.name, func(t *testing.T) {
			w := newCountRecorder()
			h := adapter.Build(rootTree([]Step{w.step()}, "POST", "/", c.handler))
			for i, left := range []int64{5, 4} {
				w.counted = i == 1
				got, _ := exchange(t, h, io.Discard)
				want := c.status
				if want == 0 {
					want = got
				}
				if got != 0 && got != want {
					t.Errorf("the client got %d, want %d", got, want)
				}
				w.expect(t, fmt.Sprint("counted ", w.counted), left, want)
			}
		})
	}
}
