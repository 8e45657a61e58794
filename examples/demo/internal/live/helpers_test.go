package live

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// page is a page in a test: a session at a handler, which is called without a network.
type testPage struct {
	t       *testing.T
	handler http.Handler
	opened
}

// openPage returns a page with stores on the Redis of url, or in memory.
func openPage(t *testing.T, url string, settings Settings) *testPage {
	t.Helper()
	stores, err := OpenStores(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stores.Close)
	p := &testPage{t: t, handler: Handler(stores, slog.New(slog.NewTextHandler(io.Discard, nil)))}
	p.open(settings)
	return p
}

func (p *testPage) open(s Settings) {
	p.t.Helper()
	w := p.send("POST", "/live/sessions", fmt.Sprintf(`{"limit":%d,"window":%d}`, s.Limit, s.Window))
	if err := json.Unmarshal(w.Body.Bytes(), &p.opened); err != nil || w.Code != http.StatusCreated {
		p.t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
}

func (p *testPage) send(method, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r)
	return w
}

func (p *testPage) request(client int) *httptest.ResponseRecorder {
	return p.send("POST", fmt.Sprintf("/live/sessions/%s/requests?client=%d", p.ID, client), "")
}

func (p *testPage) policy(name string) *httptest.ResponseRecorder {
	return p.send("POST", fmt.Sprintf("/live/sessions/%s/policies/%s", p.ID, name), "")
}

func (p *testPage) take(away bool) {
	p.t.Helper()
	if w := p.send("PUT", "/live/store", fmt.Sprintf(`{"away":%v}`, away)); w.Code != 200 {
		p.t.Fatalf("%d %s", w.Code, w.Body)
	}
}

func (p *testPage) state(after int) (s State) {
	p.t.Helper()
	w := p.send("GET", fmt.Sprintf("/live/sessions/%s?after=%d", p.ID, after), "")
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || w.Code != 200 {
		p.t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return s
}
