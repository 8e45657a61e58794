package heaviest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core/heaviest"
)

// get asks for the page.
func get(heavy *heaviest.Clients, method string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	heavy.ServeHTTP(w, httptest.NewRequest(method, "/heaviest", nil))
	return w
}

// TestPage: the page names rules and clients, and hostile keys are escaped.
func TestPage(t *testing.T) {
	heavy := heaviest.New(10)
	if body := get(heavy, http.MethodGet).Body.String(); !strings.Contains(body, "No request has been counted.") {
		t.Errorf("the page without requests: %s", body)
	}
	for _, key := range []string{
		"<script>alert(1)</script>", "\"' onload=x", "a\x00\n\x1b[31m", "\u202egnp.exe", "\xff", strings.Repeat("x", 200),
	} {
		heavy.Observe(t.Context(), request(key, false))
	}
	heavy.Observe(t.Context(), request("user:1", true))
	w := get(heavy, http.MethodGet)
	body := w.Body.String()
	for _, want := range []string{
		"<h2>api, rule login: refused</h2>", "<h2>api, rule login: admitted</h2>", "6 requests since ",
		"&lt;script&gt;alert(1)", `a\x00\n\x1b[31m`, `\u202egnp.exe`, `\xff`, strings.Repeat("x", 96) + "&#34;...",
		"<td>1</td><td>1</td>", "user:1",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, never := range []string{"<script", "\x00", "\x1b", "\u202e", "\"' onload", strings.Repeat("x", 97)} {
		if strings.Contains(body, never) {
			t.Errorf("the page has %q as it came", never)
		}
	}
	if t.Failed() {
		t.Log(body)
	}
	for field, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store",
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "X-Content-Type-Options": "nosniff",
	} {
		if got := w.Header().Get(field); got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
}

// TestPageMethods: the page is read and not written.
func TestPageMethods(t *testing.T) {
	heavy := heaviest.New(1)
	if w := get(heavy, http.MethodHead); w.Code != http.StatusOK || w.Body.Len() != 0 {
		t.Errorf("HEAD: status %d and %d bytes, want 200 and none", w.Code, w.Body.Len())
	}
	if w := get(heavy, http.MethodPost); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: status %d, Allow %q, want 405 and GET, HEAD", w.Code, w.Header().Get("Allow"))
	}
}
