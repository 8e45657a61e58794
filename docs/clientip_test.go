package docs_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/sashlimit/sash/keyfuncs"
)

// ginKey returns the key that gin, set as on proxies.md, gives a request, or "refused".
func ginKey(r *http.Request) (key string) {
	engine := gin.New()
	if err := engine.SetTrustedProxies([]string{"10.0.0.0/8"}); err != nil {
		return err.Error()
	}
	engine.RemoteIPHeaders = []string{"X-Forwarded-For"}
	engine.GET("/", func(c *gin.Context) {
		key = "refused"
		if addr, err := netip.ParseAddr(c.ClientIP()); err == nil {
			key = keyfuncs.IPString(addr.WithZone(""), 0)
		}
	})
	engine.ServeHTTP(httptest.NewRecorder(), r)
	return key
}

// TestClientIPs: behind a trusted proxy at 10.0.0.1, keyfuncs.IP and gin name the same client, but where an entry has a
// port, as proxies.md says.
func TestClientIPs(t *testing.T) {
	client := keyfuncs.IP(keyfuncs.TrustProxies(netip.MustParsePrefix("10.0.0.0/8")))
	gin.SetMode(gin.TestMode)
	for _, test := range []struct{ header, key, gin string }{
		{"192.0.2.1, 198.51.100.7", "ip:198.51.100.7", "ip:198.51.100.7"},
		{"2001:db8:1:2::5", "ip:2001:db8:1:2::/64", "ip:2001:db8:1:2::/64"},
		{"198.51.100.7:52241", "ip:198.51.100.7", "ip:10.0.0.1"},
		{"192.0.2.1, garbage", "ip:10.0.0.1", "ip:10.0.0.1"},
		{"192.0.2.1, ", "ip:10.0.0.1", "ip:10.0.0.1"},
		{"10.1.1.1, 10.0.0.9", "ip:10.1.1.1", "ip:10.1.1.1"},
		{"", "ip:10.0.0.1", "ip:10.0.0.1"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "10.0.0.1:41000"
		if test.header != "" {
			r.Header.Set("X-Forwarded-For", test.header)
		}
		key, err := client(r)
		if got := ginKey(r); err != nil || key != test.key || got != test.gin {
			t.Errorf("%q: %q and gin %q (%v), want %q and %q", test.header, key, got, err, test.key, test.gin)
		}
	}
}
