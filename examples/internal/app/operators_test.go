package app

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/extra/heaviest"
	"github.com/sashlimit/sash/keyfuncs"
)

// TestOperators: the pages for operators are behind a password, and have all rules.
func TestOperators(t *testing.T) {
	store := memstore.New()
	app := New(store, 0, keyfuncs.RemoteIP, slog.New(slog.DiscardHandler))
	pages, err := operators(app, store, core.Must(heaviest.New(1)), "right")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, password string
		status         int
	}{
		{"", "", 401}, {"admin", "wrong", 401}, {"admin", "", 401}, {"root", "right", 401}, {"admin:", "right", 401},
		{"admin", "right", 200},
	} {
		for _, path := range []string{"/rules.json", "/stores.json"} {
			r := httptest.NewRequest("GET", path, nil)
			r.SetBasicAuth(c.name, c.password)
			w := httptest.NewRecorder()
			pages.ServeHTTP(w, r)
			if w.Code != c.status {
				t.Errorf("%s as %q, %q: status %d, want %d", path, c.name, c.password, w.Code, c.status)
			}
			if shown := strings.Contains(w.Body.String(), "apikey-failures"); shown != (w.Code == 200 && path == "/rules.json") {
				t.Errorf("%s: %s", path, w.Body)
			}
			if w.Code == 200 && path == "/stores.json" && !strings.Contains(w.Body.String(), `"MaxBytes"`) {
				t.Errorf("%s: %s", path, w.Body)
			}
		}
	}
}

// TestOperatorsCannotBeServed: without a password, or where the address is taken, the
// example does not start.
func TestOperatorsCannotBeServed(t *testing.T) {
	s := serving(t, func(*App) http.Handler { return http.NotFoundHandler() })
	taken := strings.TrimPrefix(s.url, "http://")
	for password, want := range map[string]string{"": "SASH_ADMIN_PASSWORD", "right": "in use"} {
		t.Setenv("SASH_ADMIN_PASSWORD", password)
		err := run(t.Context(), []string{"-addr", "127.0.0.1:0", "-admin", taken}, io.Discard,
			func(*App) http.Handler { return http.NotFoundHandler() })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with the password %q: %v, want %q", password, err, want)
		}
	}
}
