package adaptertest

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// The handshake of RFC 6455, section 1.3.
const (
	handshake = "GET / HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	accepted     = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
	acceptedKey  = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
	webSocketUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
)

// echoMessage accepts a WebSocket and sends back one message of 5 bytes.
func echoMessage(w http.ResponseWriter, r *http.Request) error {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + webSocketUID))
	conn, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Fprintf(rw, accepted+"Sec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
	_ = rw.Flush()
	frame := make([]byte, 2+4+5) // a masked text of 5 bytes
	if _, err := io.ReadFull(rw, frame); err != nil {
		return err
	}
	for i := range 5 {
		frame[6+i] ^= frame[2+i%4]
	}
	_, _ = rw.Write(append([]byte{0x81, 5}, frame[6:]...))
	return rw.Flush()
}

// webSocket checks a handshake and one message in each direction, and that a
// refused handshake is an ordinary 429 that a client can read.
func webSocket(t *testing.T, adapter Adapter) {
	s := start(t, adapter, func(w http.ResponseWriter, r *http.Request) {
		if err := echoMessage(w, r); err != nil {
			t.Error(err)
		}
	})
	for range 2 {
		conn, in := dial(t, s)
		_, _ = io.WriteString(conn, handshake)
		res, err := http.ReadResponse(in, nil)
		if err != nil || res.StatusCode != 101 || res.Header.Get("Sec-WebSocket-Accept") != acceptedKey {
			t.Fatalf("%v %+v", err, res)
		}
		_, _ = conn.Write([]byte{0x81, 0x80 | 5, 1, 2, 3, 4, 'h' ^ 1, 'e' ^ 2, 'l' ^ 3, 'l' ^ 4, 'o' ^ 1})
		if got, err := io.ReadAll(in); string(got) != "\x81\x05hello" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	conn, in := dial(t, s)
	_, _ = io.WriteString(conn, handshake)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != 429 || res.Header.Get("Retry-After") != "60" {
		t.Fatalf("%v %+v", err, res)
	}
	if body, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(body), "rate_limit_exceeded") {
		t.Errorf("%q %v", body, err)
	}
}
