package nethttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/nethttp"
)

// TestReverseProxy: the fields of a limit of the upstream's do not reach the client, those of the guard do, also where
// the upstream sends an interim response, if the proxy is made as the doc comment of DropUpstreamLimits says.
func TestReverseProxy(t *testing.T) {
	renamed := headers.Classic.WithNames("X-Quota-Limit", "X-Quota-Remaining", "X-Quota-Reset", "")
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // sends 100 Continue to a client that expects it
		for _, name := range []string{
			"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Used",
			"RateLimit", "RateLimit-Policy", "RateLimit-Reset", "X-Quota-Limit",
		} {
			w.Header().Set(name, "upstream")
		}
		w.Header().Set("Retry-After", "7")
		w.Header().Set("X-Other", "kept")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer upstream.Close()
	target, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			p.Out.Header.Del("Expect")
		},
		ModifyResponse: func(res *http.Response) error {
			for _, name := range renamed.Names() { // as the doc comment says
				res.Header.Del(name)
			}
			return nethttp.DropUpstreamLimits(res)
		},
	}
	front := httptest.NewServer(nethttp.Middleware(limiter(admits(3, 9*time.Second), nil), alice)(proxy))
	defer front.Close()
	r, err := http.NewRequest(http.MethodPost, front.URL, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Expect", "100-continue")
	res, err := front.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	res.Header.Del("Date")
	const want = "Content-Length: 0 | Retry-After: 7 | X-Other: kept | X-Ratelimit-Limit: 100 | " +
		"X-Ratelimit-Remaining: 3 | X-Ratelimit-Reset: 9"
	if got := flat(res.Header); got != want || res.StatusCode != 503 {
		t.Errorf("got %d %s\nwant 503 %s", res.StatusCode, got, want)
	}
}
