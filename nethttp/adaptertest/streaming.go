package adaptertest

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"
)

// streaming checks that an event arrives, with the limit fields, while the handler
// still runs.
func streaming(t *testing.T, adapter Adapter) {
	received := make(chan struct{})
	s := start(t, adapter, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		w.(http.Flusher).Flush()
		select {
		case <-received:
		case <-r.Context().Done():
			t.Error("the event did not arrive while the handler ran")
		}
		_, _ = io.WriteString(w, "data: 2\n\n")
	})
	res, err := clientOf(s).Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 200 || res.Header.Get("X-RateLimit-Remaining") != "1" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	body := bufio.NewReader(res.Body)
	if line, err := body.ReadString('\n'); line != "data: 1\n" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	close(received)
	if rest, err := io.ReadAll(body); string(rest) != "\ndata: 2\n\n" || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
}

// responseController checks that all methods of an http.ResponseController work
// behind a guard.
func responseController(t *testing.T, adapter Adapter) {
	s := start(t, adapter, func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		soon := time.Now().Add(time.Minute)
		err := errors.Join(c.SetReadDeadline(soon), c.SetWriteDeadline(soon), c.EnableFullDuplex(), c.Flush())
		if err != nil {
			t.Error(err)
		}
		if conn, _, err := c.Hijack(); err != nil {
			t.Error(err)
		} else {
			conn.Close()
		}
	})
	res, err := clientOf(s).Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
}
