package nethttp_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// TestProblemBodies: the body is JSON, whatever the client accepts.
func TestProblemBodies(t *testing.T) {
	never := &fakeStore{decision: core.Decision{Limit: minute, RetryAfter: core.Never}}
	nameless := func(*http.Request) (string, error) { return "", nil }
	for _, c := range []struct {
		name string
		h    http.Handler
		want string
	}{
		{"429", guarded(refuses(30 * time.Second)),
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
				`"title":"Too Many Requests","status":429,` +
				`"detail":"The limit on requests is reached. Try again in 30 seconds.",` +
				`"error":"rate_limit_exceeded","retry_after":30,"violated-policies":["1m0s"]}`},
		{"429, one second", guarded(refuses(time.Millisecond)),
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
				`"title":"Too Many Requests","status":429,` +
				`"detail":"The limit on requests is reached. Try again in 1 second.",` +
				`"error":"rate_limit_exceeded","retry_after":1,"violated-policies":["1m0s"]}`},
		{"never", guarded(never),
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
				`"title":"Too Many Requests","status":429,` +
				`"detail":"This request costs more than the limit ever allows.",` +
				`"error":"rate_limit_exceeded","violated-policies":["1m0s"]}`},
		{"503", nethttp.Middleware(limiter(&fakeStore{err: core.ErrStore}, core.FailClosed), alice,
			nethttp.WithOutageRetryAfter(1200*time.Millisecond))(page),
			`{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",` +
				`"title":"Service Unavailable","status":503,` +
				`"detail":"The limit on requests cannot be checked at the moment. Try again in 2 seconds.",` +
				`"error":"rate_limiter_unavailable","retry_after":2}`},
		{"400", nethttp.Middleware(limiter(admits(1, 0), nil), nameless)(page),
			`{"type":"about:blank","title":"Bad Request","status":400,` +
				`"detail":"The request does not say whose it is.",` +
				`"error":"client_unidentified"}`},
		{"401", nethttp.Middleware(limiter(admits(1, 0), nil), failing(&keyfuncs.UnauthenticatedError{}))(page),
			`{"type":"about:blank","title":"Unauthorized","status":401,` +
				`"detail":"The request needs a credential that is known here, such as an API key.",` +
				`"error":"unauthenticated"}`},
		{"500", guarded(admits(1, 0), nethttp.WithCost(func(*http.Request) int { return -1 })),
			`{"type":"about:blank","title":"Internal Server Error","status":500,` +
				`"detail":"The limit on requests could not be checked.",` +
				`"error":"internal_error"}`},
	} {
		w := get(t, c.h, "/", "Accept", "text/html, text/plain")
		if got := w.Body.String(); got != c.want || !json.Valid([]byte(got)) {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
		if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
			t.Errorf("%s: Content-Type %q", c.name, got)
		}
	}
}
