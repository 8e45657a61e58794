package adaptertest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// refusedBody checks that the connection of a refused request is to close where no deadline bounds the wait for its
// body, as it is for a httptest.ResponseRecorder: then net/http answers without that wait.
func refusedBody(t *testing.T, adapter Adapter) {
	for _, c := range []struct {
		name, body string
		length     int64
		major      int
		want       string
	}{
		{"no body", "", 0, 1, ""},
		{"a body", "body", 4, 1, "close"},
		{"chunked", "body", -1, 1, "close"},
		{"HTTP/2", "body", 4, 2, ""},
	} {
		handler := func(http.ResponseWriter, *http.Request) {
			t.Errorf("%s: a refused request reached the handler", c.name)
		}
		for place, tree := range map[string]Tree{
			"root":  behind([]Step{spent()}, "POST", "/", handler),
			"route": {Routes: []Route{route("POST", "/", []Step{spent()}, handler)}},
		} {
			r := httptest.NewRequest("POST", "/", strings.NewReader(c.body))
			r.ContentLength, r.ProtoMajor = c.length, c.major
			w := httptest.NewRecorder()
			adapter.Build(tree).ServeHTTP(w, r)
			if got := w.Header().Get("Connection"); w.Code != 429 || got != c.want {
				t.Errorf("%s, %s: got %d and Connection %q, want 429 and %q", c.name, place, w.Code, got, c.want)
			}
		}
	}
}
