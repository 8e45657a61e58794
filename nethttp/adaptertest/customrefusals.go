package adaptertest

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
)

// refusalCases are functions for WithRefusal, with the response that the client
// gets. A status of 0 means that the connection ends without a response, and the
// body "?" stands for any body.
var refusalCases = []struct {
	name   string
	refuse refuseFunc
	status int
	body   string
}{
	{"nothing", func(http.ResponseWriter, *http.Request, core.Decision) {}, 429, "?"},
	{"early hints", func(w http.ResponseWriter, _ *http.Request, _ core.Decision) { w.WriteHeader(103) }, 429, "?"},
	{"a status", func(w http.ResponseWriter, _ *http.Request, _ core.Decision) { w.WriteHeader(420) }, 420, ""},
	{"status and body", func(w http.ResponseWriter, _ *http.Request, _ core.Decision) {
		w.WriteHeader(420)
		_, _ = io.WriteString(w, "calm")
	}, 420, "calm"},
	{"a body", func(w http.ResponseWriter, _ *http.Request, _ core.Decision) {
		_, _ = io.WriteString(w, "no")
	}, 429, "no"},
	{"early hints and a body", func(w http.ResponseWriter, _ *http.Request, _ core.Decision) {
		w.WriteHeader(103)
		_, _ = io.WriteString(w, "no")
	}, 429, "no"},
	{"a flush", func(w http.ResponseWriter, _ *http.Request, _ core.Decision) {
		_ = http.NewResponseController(w).Flush()
	}, 429, ""},
	{"hijacked", func(w http.ResponseWriter, _ *http.Request, _ core.Decision) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 418 I'm a teapot\r\nConnection: close\r\n\r\nmy")
		conn.Close()
	}, 418, "my"},
	{"panic", func(http.ResponseWriter, *http.Request, core.Decision) { panic("the user's own") }, 0, ""},
}

// customRefusals checks that a user's function that writes no response, or an
// interim one only, does not make a refusal a 200, and that a response that the
// function writes reaches the client without additions.
func customRefusals(t *testing.T, adapter Adapter) {
	for _, c := range refusalCases {
		for name, option := range adapter.refusals() {
			t.Run(name+" "+c.name, func(t *testing.T) {
				var logged strings.Builder
				handler := func(http.ResponseWriter, *http.Request) {
					t.Error("a refused request reached the handler")
				}
				s := httptest.NewUnstartedServer(adapter.Build(Tree{
					Use:    []Step{spent(option(c.refuse))},
					Routes: []Route{route("GET", "/", nil, handler)},
				}))
				s.Config.ErrorLog = log.New(&logged, "", 0)
				s.Start()
				res, err := clientOf(s).Get(s.URL)
				var body []byte
				if err == nil {
					body, _ = io.ReadAll(res.Body)
					res.Body.Close()
				}
				s.Close()
				if c.status == 0 {
					if err == nil {
						t.Errorf("got %d; want the connection to end", res.StatusCode)
					}
					return
				}
				if err != nil {
					t.Fatalf("%v; want %d %q", err, c.status, c.body)
				}
				if res.StatusCode != c.status || c.body != "?" && string(body) != c.body {
					t.Fatalf("got %d %q; want %d %q", res.StatusCode, body, c.status, c.body)
				}
				if logged.Len() > 0 {
					t.Errorf("the server logged %q", &logged)
				}
			})
		}
	}
}
