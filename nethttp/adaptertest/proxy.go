package adaptertest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"testing"

	"github.com/sashlimit/sash/nethttp"
)

// reverseProxy checks that the limit fields of an upstream server do not stand
// beside the guard's.
func reverseProxy(t *testing.T, adapter Adapter) {
	limitFields := []string{
		"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Used",
		"RateLimit", "RateLimit-Policy",
	}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range limitFields {
			w.Header().Set(name, "999")
		}
		w.Header().Set("X-Upstream", r.URL.Path)
		_, _ = io.WriteString(w, "upstream")
	}))
	defer upstream.Close()
	target, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(p *httputil.ProxyRequest) { p.SetURL(target) },
		ModifyResponse: nethttp.DropUpstreamLimits,
	}
	s := start(t, adapter, proxy.ServeHTTP)
	for i, want := range []string{"upstream", "upstream", ""} {
		res, body := get(t, clientOf(s), s.URL)
		ours := slices.Equal(res.Header["X-Ratelimit-Limit"], []string{"2"}) &&
			res.Header["Ratelimit"] == nil && res.Header["X-Ratelimit-Used"] == nil
		if !ours || want != "" && body != want || (res.Header.Get("X-Upstream") == "/") != (want != "") {
			t.Errorf("request %d: %v %q", i, res.Header, body)
		}
	}
}
