package nethttp_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/nethttp"
)

func TestReverseProxy(t *testing.T) {
	renamed := headers.Classic.WithNames("X-Quota-Limit", "X-Quota-Remaining", "X-Quota-Reset", "")
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
		Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) },
		ModifyResponse: func(res *http.Response) error {
			for _, name := range renamed.Names() { // as the doc comment says
				res.Header.Del(name)
			}
			return nethttp.DropUpstreamLimits(res)
		},
	}
	w := get(t, nethttp.Middleware(limiter(admits(3, 9*time.Second), nil), alice)(proxy), "/")
	h := w.Header()
	h.Del("Date")
	want := "Content-Length: 0 | Retry-After: 7 | X-Other: kept | X-Ratelimit-Limit: 100 | X-Ratelimit-Remaining: 3 " +
		"| X-Ratelimit-Reset: 9"
	if got := flat(h); got != want || w.Code != 503 {
		t.Errorf("%d\n got %s\nwant %s", w.Code, got, want)
	}
}
