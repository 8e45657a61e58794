package docs_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/sashlimit/sash/keyfuncs"
)

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

// TestClientIPs holds the last table of proxies.md to what keyfuncs.IP and gin do.
func TestClientIPs(t *testing.T) {
	page, err := os.ReadFile("proxies.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| X-Forwarded-For | `keyfuncs.IP` | gin |\n|---|---|---|\n")
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
		for i, got := range []string{key, ginKey(r)} {
			if want := cells[i+1]; got != want {
				t.Errorf("%s, column %d: key %q, the page says %q", cells[0], i+2, got, want)
			}
		}
	}
}
