package docs_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/sashlimit/sash/keyfuncs"
)

// chiKey returns the key that the program for chi on proxies.md gives a request, or
// "refused". set is chi's middleware that finds the address.
func chiKey(set func(http.Handler) http.Handler, r *http.Request) (key string) {
	handler := func(_ http.ResponseWriter, r *http.Request) {
		key = keyfuncs.IPString(middleware.GetClientIPAddr(r.Context()), 0)
	}
	set(http.HandlerFunc(handler)).ServeHTTP(httptest.NewRecorder(), r)
	if key == "" {
		return "refused"
	}
	return key
}

// ginKey returns the key that the program for gin on proxies.md gives a request, or
// "refused".
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

// TestClientIPs holds the last table of proxies.md to what keyfuncs.IP, chi and gin do.
func TestClientIPs(t *testing.T) {
	page, err := os.ReadFile("proxies.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| X-Forwarded-For | `keyfuncs.IP` | chi | gin |\n|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	if len(rows) != 7 {
		t.Fatalf("the table has %d rows, want 7: %q", len(rows), rows)
	}
	client := keyfuncs.IP(keyfuncs.TrustProxies(netip.MustParsePrefix("10.0.0.0/8")))
	gin.SetMode(gin.TestMode)
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "10.0.0.1:41000"
		if quoted := strings.Split(cells[0], "`"); len(quoted) == 3 {
			r.Header.Set("X-Forwarded-For", quoted[1])
		}
		key, err := client(r)
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range []string{key, chiKey(middleware.ClientIPFromXFF("10.0.0.0/8"), r), ginKey(r)} {
			if want := cells[i+1]; got != want {
				t.Errorf("%s, column %d: key %q, the page says %q", cells[0], i+2, got, want)
			}
		}
	}
}

// TestChiNamesTheSameClient holds the table of chi's functions on proxies.md: each names the
// same client as its line has it, of IPv4 and IPv6, from a proxy and from elsewhere.
func TestChiNamesTheSameClient(t *testing.T) {
	proxies := keyfuncs.TrustProxies(netip.MustParsePrefix("10.0.0.0/8"))
	for _, c := range []struct {
		chi  func(http.Handler) http.Handler
		ours func(*http.Request) (string, error)
		peer string
		want string
	}{
		{middleware.ClientIPFromXFF("10.0.0.0/8"), keyfuncs.IP(proxies), "10.0.0.1:41000", "ip:2001:db8:1:2::/64"},
		{middleware.ClientIPFromXFF("10.0.0.0/8"), keyfuncs.IP(proxies), "203.0.113.9:41000", "ip:203.0.113.9"},
		{
			middleware.ClientIPFromXFFTrustedProxies(2), keyfuncs.IP(keyfuncs.TrustHops(2)),
			"10.0.0.1:41000", "ip:2001:db8:1:2::/64",
		},
		{
			middleware.ClientIPFromHeader("X-Real-IP", "10.0.0.0/8"), keyfuncs.IP(keyfuncs.FromHeader("X-Real-IP"), proxies),
			"10.0.0.1:41000", "ip:198.51.100.7",
		},
		{
			middleware.ClientIPFromHeader("X-Real-IP", "10.0.0.0/8"), keyfuncs.IP(keyfuncs.FromHeader("X-Real-IP"), proxies),
			"203.0.113.9:41000", "ip:203.0.113.9",
		},
		{middleware.ClientIPFromRemoteAddr, keyfuncs.RemoteIP, "[2001:db8:5:6::7]:41000", "ip:2001:db8:5:6::/64"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.peer
		r.Header.Set("X-Forwarded-For", "192.0.2.1, 2001:db8:1:2::5, 10.0.0.9")
		r.Header.Set("X-Real-IP", "198.51.100.7")
		key, err := c.ours(r)
		if got := chiKey(c.chi, r); err != nil || key != c.want || got != c.want {
			t.Errorf("from %s: chi has %q, keyfuncs %q (%v), want %q", c.peer, got, key, err, c.want)
		}
	}
}
