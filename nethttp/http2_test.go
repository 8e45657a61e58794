package nethttp_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/notice"
	"github.com/sashlimit/sash/nethttp"
)

// TestH2C: a request by which a handler may serve HTTP/2 on the connection is noticed, whenever it comes, and no other
// change of the protocol. Where the server itself speaks HTTP/2 without TLS, each request is limited, and none is
// noticed.
func TestH2C(t *testing.T) {
	for request, codes := range map[string][]string{
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": {notice.H2C},
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n": {notice.H2C},
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n":    nil,
	} {
		l, observer := newNoticeLimiter()
		h := nethttp.Middleware(l, alice)(page)
		for range 100 {
			get(t, h, "/")
		}
		serve(h, httptest.NewRequest("PRI", "*", nil)) // whose ResponseWriter is no Hijacker
		server := httptest.NewServer(h)
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second)) // no test waits for ever
		_, _ = io.WriteString(conn, request)
		_, _ = conn.Read(make([]byte, 1))
		conn.Close()
		server.Close()
		observer.expect(t, request, codes...)
	}
	l, observer := newNoticeLimiter()
	three := core.Must(l.Rule("three", core.PerMinute(3)))
	server := httptest.NewUnstartedServer(nethttp.Middleware(three, alice)(page))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()
	client := http.Client{Transport: &http.Transport{Protocols: server.Config.Protocols}, Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	for i := range 5 {
		res, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if want := map[bool]int{true: 200, false: 429}[i < 3]; res.StatusCode != want || res.ProtoMajor != 2 {
			t.Errorf("request %d: got %d by %s, want %d by HTTP/2.0", i, res.StatusCode, res.Proto, want)
		}
	}
	observer.expect(t, "a server of HTTP/2")
}
