package nethttp_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
)

func TestProblemBodies(t *testing.T) {
	never := &fakeStore{decision: core.Decision{Limit: minute, RetryAfter: core.Never}}
	for _, c := range []struct {
		name string
		h    http.Handler
		want string
	}{
		{"429", guarded(refuses(30 * time.Second)), `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","status":429,"detail":"The limit on requests is reached. Try again in 30 seconds.","error":"rate_limit_exceeded","retry_after":30,"violated-policies":["1m0s"]}`},
		{"429, one second", guarded(refuses(time.Millisecond)), `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","status":429,"detail":"The limit on requests is reached. Try again in 1 second.","error":"rate_limit_exceeded","retry_after":1,"violated-policies":["1m0s"]}`},
		{"never", guarded(never), `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","status":429,"detail":"This request costs more than the limit ever allows.","error":"rate_limit_exceeded","violated-policies":["1m0s"]}`},
		{"503", nethttp.Middleware(limiter(&fakeStore{err: core.ErrStore}, core.FailClosed), alice)(page), `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Service Unavailable","status":503,"detail":"The limit on requests cannot be checked at the moment. Try again in 5 seconds.","error":"rate_limiter_unavailable","retry_after":5}`},
		{"400", nethttp.Middleware(limiter(admits(1, 0), nil), func(*http.Request) (string, error) { return "", nil })(page), `{"type":"about:blank","title":"Bad Request","status":400,"detail":"The request does not say whose it is.","error":"client_unidentified"}`},
		{"500", guarded(admits(1, 0), nethttp.WithCost(func(*http.Request) int { return -1 })), `{"type":"about:blank","title":"Internal Server Error","status":500,"detail":"The limit on requests could not be checked.","error":"internal_error"}`},
	} {
		w := get(t, c.h, "/")
		if got := w.Body.String(); got != c.want || !json.Valid([]byte(got)) {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
		if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
			t.Errorf("%s: Content-Type %q", c.name, got)
		}
	}
}

// The limiter may know better than 5 s when its store will be back.
func TestRetryAfterOfTheStore(t *testing.T) {
	g, err := nethttp.NewDecider(limiter(admits(1, 0), nil))
	if err != nil {
		t.Fatal(err)
	}
	d := core.Decision{Err: core.ErrStore, RetryAfter: 1500 * time.Millisecond}
	w := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.Refuse(w, r, d) }), request(t, "/"))
	if !strings.Contains(w.Body.String(), `"retry_after":2`) {
		t.Errorf("%s", w.Body)
	}
}

func TestNegotiation(t *testing.T) {
	const json, html, text = "application/problem+json", "text/html; charset=utf-8", "text/plain; charset=utf-8"
	h := guarded(refuses(30 * time.Second))
	for _, c := range []struct {
		want   string
		accept []string
	}{
		{json, nil},
		{json, []string{""}},
		{json, []string{"*/*"}},
		{json, []string{"application/json"}},
		{json, []string{"text/html, application/*"}},
		{json, []string{"text/plain", "application/json"}},
		{json, []string{"application/json, text/plain, */*"}},
		{json, []string{"text/html, application/vnd.api+json;q=0.5"}},
		{json, []string{"image/png"}},
		{json, []string{"text/plain;q=0, */*"}},
		{json, []string{"text/html ; a=b ; Q=0.000"}},
		{json, []string{";;,,;q=,text"}},
		{html, []string{"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"}}, // browsers
		{html, []string{"Text/HTML;level=1"}},
		{html, []string{"text/html, text/plain"}},
		{html, []string{"application/json;q=0, text/html"}},
		{text, []string{"text/plain"}},
		{text, []string{"text/*"}},
		{text, []string{"text/plain;q=0.01"}},
		{text, []string{"image/png", "text/plain, text/html"}},
	} {
		var header []string
		for _, a := range c.accept {
			header = append(header, "Accept", a)
		}
		w := get(t, h, "/", header...)
		if got := w.Header().Get("Content-Type"); got != c.want || w.Code != 429 {
			t.Errorf("Accept %q: %d %q, want %q", c.accept, w.Code, got, c.want)
		}
		if !strings.Contains(w.Body.String(), "Try again in 30 seconds.") {
			t.Errorf("Accept %q: %s", c.accept, w.Body)
		}
	}
}
