package sashadmin_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/extra/sashadmin"
)

// TestFields: no answer is stored or framed, and a page may have its style and nothing else.
func TestFields(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for _, path := range []string{
		"", "rules.json", "client?user=1", "heaviest", "stores", "reset", "nothing", "nothing.json",
	} {
		r := s.send("GET", path)
		for field, want := range map[string]string{
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
			"Referrer-Policy": "same-origin",
		} {
			if got := r.Header.Get(field); got != want {
				t.Errorf("%q: %s: %q, want %q", path, field, got, want)
			}
		}
		csp := r.Header.Get("Content-Security-Policy")
		if strings.HasSuffix(path, ".json") {
			continue
		}
		_, rest, _ := strings.Cut(r.body, "<style>")
		style, _, _ := strings.Cut(rest, "</style>")
		hash := sha256.Sum256([]byte(style))
		want := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) +
			"'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
		if style == "" || csp != want {
			t.Errorf("%q: Content-Security-Policy: %s, want %s", path, csp, want)
		}
		if strings.Contains(r.body, "style=") || strings.Contains(r.body, `="/`) {
			t.Errorf("%q: the page has a style of its own, or a link that is not relative: %s", path, r.body)
		}
	}
}

// TestPaths: there are no other paths, and pages that are not configured are not there.
func TestPaths(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for _, path := range []string{"nothing", "client/", "rules/x", ".json", "rules.json.json", "client.html"} {
		s.get(path, http.StatusNotFound, "there is no such page")
	}
	s.get("nothing.json", http.StatusNotFound, `"error": "there is no such page"`)
	s.check(s.send("POST", "client?user=42"), http.StatusMethodNotAllowed)
	if r := s.send("HEAD", "client?user=42"); r.StatusCode != http.StatusOK || r.body != "" {
		t.Errorf("HEAD: status %d, %q", r.StatusCode, r.body)
	}
	for _, query := range []string{"", "?user=", "?key=&ip=", "?user=1&key=2"} {
		s.get("client"+query, http.StatusBadRequest, "client", "<form")
		s.get("client.json"+query, http.StatusBadRequest, `"error"`)
	}
	s = newSite(t, func(c *sashadmin.Config) { c.Heaviest, c.Stores = nil, nil })
	for _, path := range []string{"heaviest", "heaviest.json", "stores", "stores.json"} {
		s.get(path, http.StatusNotFound)
	}
	if r := s.get("", http.StatusOK); strings.Contains(r.body, `"heaviest"`) || strings.Contains(r.body, `"stores"`) {
		t.Errorf("links to pages that are not there: %s", r.body)
	}
}

// TestMounts: the handler works with and without a prefix, however that is stripped, and
// sends a browser to the path with a slash at its end.
func TestMounts(t *testing.T) {
	t.Parallel()
	l := core.Must(core.New(core.Config{Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerHour(1)}}))
	admin := core.Must(sashadmin.New(sashadmin.Config{Limiters: []*core.Limiter{l}}))
	for _, c := range []struct {
		handler    http.Handler
		path, want string
	}{
		{admin, "/", "200 "},
		{admin, "/rules.json", "200 "},
		{http.StripPrefix("/a/b", admin), "/a/b/", "200 "},
		{http.StripPrefix("/a/b", admin), "/a/b/?x=/", "200 "},
		{http.StripPrefix("/a/b/", admin), "/a/b/", "200 "},
		{http.StripPrefix("/a/b/", admin), "/a/b/rules.json", "200 "},
		{http.StripPrefix("/a/b", admin), "/a/b", "303 ./b/"},
		{http.StripPrefix("/a/b", admin), "/a/b?x=/", "303 ./b/"},
	} {
		w := httptest.NewRecorder()
		c.handler.ServeHTTP(w, httptest.NewRequest("GET", c.path, nil))
		got := fmt.Sprint(w.Code, " ", w.Header().Get("Location"), ", ", w.Header().Get("Cache-Control"))
		if got != c.want+", no-store" {
			t.Errorf("%s: %s, want %s", c.path, got, c.want)
		}
	}
}

// TestConfigErrors: what cannot work is an error that says so.
func TestConfigErrors(t *testing.T) {
	t.Parallel()
	l := core.Must(core.New(core.Config{Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerHour(1)}}))
	login := core.Must(l.Rule("login", core.PerHour(1)))
	for says, c := range map[string]sashadmin.Config{
		"Limiters is empty": {},
		"limiter 2 of":      {Limiters: []*core.Limiter{l, nil}},
		"limiter 1 of":      {Limiters: []*core.Limiter{new(core.Limiter)}},
		`limiter "api", rule "login" twice`: {
			Limiters: []*core.Limiter{login, l, login.WithPolicy(core.FailClosed)},
		},
		`at "redis"`: {Limiters: []*core.Limiter{l}, Stores: map[string]func() any{"redis": nil}},
		`at ""`:      {Limiters: []*core.Limiter{l}, Stores: map[string]func() any{"": func() any { return nil }}},
	} {
		h, err := sashadmin.New(c)
		if h != nil || err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "sash: ") {
			t.Errorf("%v and the error %v, want %q", h, err, says)
		}
	}
	limiters := []*core.Limiter{l, login}
	h := core.Must(sashadmin.New(sashadmin.Config{Limiters: limiters}))
	limiters[0] = nil // the handler has a copy
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/rules.json", nil))
	if w.Code != http.StatusOK {
		t.Errorf("status %d", w.Code)
	}
}
