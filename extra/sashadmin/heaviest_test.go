package sashadmin_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core/redisstore"
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
	s.get("heaviest.json", http.StatusOK, `"rankings": [ { "limiter": "api", "rule": "", "outcome": "admitted", `,
		`"cut": true`, `"limiter": "api", "rule": "login", "outcome": "refused", "since": "20`,
		`"clients": [ { "key": "user:42", "at_least": 2, "at_most": 2 } ], "requests": 2, "unlisted": 0 }, `)
}

// TestStores: the state of the stores is there, without the times that are none, and one that cannot be shown is an
// error.
func TestStores(t *testing.T) {
	t.Parallel()
	stats := redisstore.Stats{Breakers: []redisstore.Breaker{
		{Server: "a:1", State: redisstore.StateClosed, Changed: time.Unix(9, 0)},
	}}
	s := newSite(t, func(c *sashadmin.Config) { c.Stores["redis"] = func() any { return stats } })
	s.take(s.api, "user:42", 1)
	s.get("stores", http.StatusOK, "<h2>memory</h2>", "<td>Slots</td><td><code>2</code></td>", "<h2>redis</h2>",
		"<td>Breakers 1 State</td><td><code>closed</code></td>", " UTC</code></td>")
	r := s.get("stores.json", http.StatusOK, `{ "stores": [ { "name": "memory", "state": { "Bytes": `, `"Slots": 2, `)
	if strings.Contains(r.body, "0001-01-01") {
		t.Errorf("got a time that is none: %s", r.body)
	}
	s = newSite(t, func(c *sashadmin.Config) { c.Stores["<b>"] = func() any { return func() {} } })
	s.get("stores", http.StatusInternalServerError, "&lt;b&gt;", "cannot be shown")
	s.get("stores.json", http.StatusInternalServerError, "cannot be shown")
}
