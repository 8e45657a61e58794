package sashadmin_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/extra/sashadmin"
)

// TestHostileKeys: keys of clients are escaped wherever they are shown.
func TestHostileKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	keys := []string{"<script>alert(1)</script>", "\"' onload=x", "javascript:alert(1)", "a\x00\n\x1b[31m",
		"\u202egnp.exe", "\xff", "</style><img src=x>", "x&all=1"}
	paths := []string{"heaviest", "heaviest.json"}
	for _, key := range keys {
		s.take(s.api, key, 1)
		paths = append(paths, "client?key="+url.QueryEscape(key), "client.json?key="+url.QueryEscape(key),
			"client?ip="+url.QueryEscape(key), "reset?rule="+url.QueryEscape(key))
	}
	for _, path := range paths {
		r := s.send("GET", path)
		if strings.HasPrefix(path, "reset") {
			r = s.send("POST", path+"&user=42")
		}
		never := []string{"<", "\x00", "\x1b", "&"} // in JSON
		if !strings.Contains(path, ".json") {
			never = []string{"<script", "<img", "\x00", "\x1b", "\u202e", "\"' onload", "&all=1\""}
		}
		for _, never := range never {
			if strings.Contains(r.body, never) {
				t.Errorf("%s has %q as it came: %s", path, never, r.body)
			}
		}
	}
	s.get("heaviest", http.StatusOK, "&lt;script&gt;", `a\x00\n\x1b[31m`, `\u202egnp.exe`, `\xff`,
		`href="client?key=x%26all%3d1"`, `href="client?key=javascript%3aalert%281%29"`, `href="client?key=%ff"`)
}

// TestHeaviest: the heaviest clients are there, with links to each that can be looked up.
func TestHeaviest(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.get("heaviest", http.StatusOK, "No request has been counted.")
	s.get("heaviest.json", http.StatusOK, `"rankings": []`)
	for range 7 {
		s.login.Allow(t.Context(), "user:42")
	}
	s.api.Allow(t.Context(), strings.Repeat("k", 200))
	s.get("heaviest", http.StatusOK, "<h2>api, rule login: refused</h2>", "<h2>api, rule login: admitted</h2>",
		`<a href="client?key=user%3a42">user:42</a></code></td><td class="n">5</td><td class="n">5</td>`,
		`<code>`+strings.Repeat("k", 96)+`...</code>`, "Of this process alone")
	got := decode[struct {
		Hashed   bool
		Rankings []struct {
			Limiter, Rule, Outcome string
			Requests               uint64
			Clients                []struct {
				Key     string
				AtLeast uint64 `json:"at_least"`
				AtMost  uint64 `json:"at_most"`
				Cut     bool
			}
		}
	}](s, s.get("heaviest.json", http.StatusOK))
	if got.Hashed || len(got.Rankings) != 3 || !got.Rankings[0].Clients[0].Cut {
		t.Fatalf("%+v", got)
	}
	refused := got.Rankings[1]
	if refused.Limiter != "api" || refused.Rule != "login" || refused.Outcome != "refused" || refused.Requests != 2 ||
		refused.Clients[0].Key != "user:42" || refused.Clients[0].AtLeast != 2 || refused.Clients[0].AtMost != 2 {
		t.Errorf("%+v", refused)
	}
}

// TestStores: the state of the stores is there, and one that cannot be shown is an error.
func TestStores(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.take(s.api, "user:42", 1)
	s.get("stores", http.StatusOK, "<h2>memory</h2>", "<td>Slots</td><td><code>2</code></td>")
	got := decode[struct {
		Stores []struct {
			Name  string
			State memstore.Stats
		}
	}](s, s.get("stores.json", http.StatusOK)).Stores
	if len(got) != 1 || got[0].Name != "memory" || got[0].State.Slots != 2 {
		t.Errorf("%+v", got)
	}
	s = newSite(t, func(c *sashadmin.Config) { c.Stores["<b>"] = func() any { return func() {} } })
	s.get("stores", http.StatusInternalServerError, "&lt;b&gt;", "cannot be shown")
	s.get("stores.json", http.StatusInternalServerError, "cannot be shown")
}
