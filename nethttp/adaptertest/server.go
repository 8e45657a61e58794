package adaptertest

import (
	"net/http"
	"net/http/httptest"
	"time"
)

// clientOf returns the client of a server. Its calls fail after 20 s, so that no test waits
// for ever.
func clientOf(s *httptest.Server) *http.Client {
	client := s.Client()
	client.Timeout = 20 * time.Second
	return client
}
