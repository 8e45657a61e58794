package nethttp_test

import (
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
)

// TestSkipPathsErrors: a path that no request has is an error of construction, which names the limiter and the rule,
// and says what to write instead.
func TestSkipPathsErrors(t *testing.T) {
	l := core.Must(limiter(admits(1, 0), nil).Rule("login", minute))
	for path, want := range map[string]string{
		"":             `such as "/health"`,
		"get /health":  "capital letters",
		"GET  /health": "one space",
		"health":       "begins with a slash",
		"a.example/x":  "nethttp.Skip",
		"GET,HEAD /x":  "capital letters",
		"/health*":     "wildcards",
		"/{id}":        "wildcards",
		"/health?x=1":  "queries",
		"GET /health ": "blank",
		"/health\n":    "blank",
		"/hea\x00lth":  "control characters",
		"/caf%C3%A9":   `give "/café"`,
		"/%68ealth":    `give "/health"`,
		"/a%2fb":       "nethttp.Skip",
	} {
		_, err := nethttp.New(l, alice, nethttp.SkipPaths(path))
		if err == nil || !strings.HasPrefix(err.Error(), `sash: limiter "test", rule "login": SkipPaths(`) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: got the error %v, want one of the limiter with %q", path, err, want)
		}
	}
	for _, path := range []string{"/100%", "/50%-off", "/a b", "M-SEARCH /x", "/x#y", "//x", "/café", "/a;b"} {
		if _, err := nethttp.New(l, alice, nethttp.SkipPaths(path)); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
}
