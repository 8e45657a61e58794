package adaptertest

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sashlimit/sash/nethttp"
)

// startH2C starts s with unencrypted HTTP/2 alone, and returns a client for it. Calls of
// the client fail after 20 s.
func startH2C(s *httptest.Server) *http.Client {
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	return &http.Client{Transport: &http.Transport{Protocols: s.Config.Protocols}, Timeout: 20 * time.Second}
}

// h2c checks that requests of unencrypted HTTP/2 are limited.
func h2c(t *testing.T, adapter Adapter) {
	s := httptest.NewUnstartedServer(adapter.Build(twoPerMinute(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("the server got %s", r.Proto)
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		page(w, r)
	})))
	client := startH2C(s)
	defer s.Close()
	defer client.CloseIdleConnections()
	for i, want := range []int{200, 200, 429} {
		res, body := get(t, client, s.URL)
		if res.ProtoMajor != 2 || res.StatusCode != want || res.Header.Get("X-RateLimit-Limit") != "2" ||
			(want == 200) != (body == "page") {
			t.Errorf("request %d: %s %d %v %q", i, res.Proto, res.StatusCode, res.Header, body)
		}
	}
}

// refusedBodyH2C checks that in HTTP/2 a refusal is sent before the request's body
// has ended, and that the connection goes on with other streams.
func refusedBodyH2C(t *testing.T, adapter Adapter) {
	s := httptest.NewUnstartedServer(adapter.Build(Tree{
		Use:    []Step{tooMuch(nethttp.SkipPaths("POST /upload"))},
		Routes: []Route{route("POST", "/", nil, page), route("POST", "/upload", nil, page)},
	}))
	opened := 0
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened++
		}
	}
	client := startH2C(s)
	// Else a request that follows at once may dial before the first connection is in the pool.
	client.Transport.(*http.Transport).MaxConnsPerHost = 1
	for path, want := range map[string]int{"/": 429, "/upload": 200} {
		body, writer := io.Pipe() // an open body, of which no byte is written
		res, err := client.Post(s.URL+path, "text/plain", body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.ProtoMajor != 2 || res.StatusCode != want {
			t.Errorf("%s: %s %d, %v; want HTTP/2 and %d", path, res.Proto, res.StatusCode, err, want)
		}
		res.Body.Close()
		writer.Close()
	}
	client.CloseIdleConnections()
	s.Close() // waits for the goroutine that writes opened
	if opened != 1 {
		t.Errorf("%d connections, want 1", opened)
	}
}
