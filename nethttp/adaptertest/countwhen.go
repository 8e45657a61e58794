package adaptertest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// endings are handlers, with the status that CountWhen is asked about. A status of 0 stands for the status that the
// client gets. As functions for WithRefusal, they make the client get a refusal: its status, or 0 if the connection
// ends without a response, and its body, or "?" for any. It is empty where the server logs, or frameworks differ.
var endings = []struct {
	name    string
	handler http.HandlerFunc
	status  int
	refusal string
}{
	{"nothing", func(http.ResponseWriter, *http.Request) {}, 200, "429 ?"},
	{"a body", page, 200, "429 page"},
	{"a string", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") }, 200, "429 page"},
	{"a copy", func(w http.ResponseWriter, _ *http.Request) { copied(w, "page") }, 200, "429 page"},
	{"a copy of nothing, then 401", func(w http.ResponseWriter, _ *http.Request) {
		copied(w, "")
		w.WriteHeader(401)
	}, 401, "401 "},
	{"a flush", func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }, 200, "429 "},
	{"401", status(401), 401, "401 "},
	{"204", status(204), 204, "204 "},
	{"401 and a body", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401); page(w, r) }, 401, "401 page"},
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

// copied copies text to w from a reader that leaves the way to w.
func copied(w io.Writer, text string) {
	_, _ = io.Copy(w, io.LimitReader(strings.NewReader(text), 1<<20))
}

func hijack(w http.ResponseWriter, _ *http.Request) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_, _ = io.WriteString(conn, "HTTP/1.1 101 \r\nConnection: Upgrade\r\nUpgrade: my\r\n\r\nmine")
		conn.Close()
	}
}

// countWhen checks that CountWhen is asked once about each request, with the status that
// the client gets, and that a unit is given back iff CountWhen says so.
func countWhen(t *testing.T, adapter Adapter) {
	for _, c := range endings {
		t.Run(c.name, func(t *testing.T) {
			w := newWatch()
			h := adapter.Build(behind([]Step{w.step()}, "POST", "/", c.handler))
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
