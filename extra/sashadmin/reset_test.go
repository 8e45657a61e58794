package sashadmin_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
)

// TestReset: a reset of one rule leaves the others, a reset of all leaves none, and other
// clients keep their counts. Keys of any bytes are reset by the forms of the page.
func TestReset(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"user:42", "any \x00\n\xff\"<&>key"} {
		s := newSite(t, nil)
		count := func() {
			for _, l := range []*core.Limiter{s.api, s.login} {
				s.take(l, key, 2)
				s.take(l, "user:other", 1)
			}
		}
		count()
		page := s.get("client?key="+url.QueryEscape(key), http.StatusOK).body
		var actions []string
		uri := regexp.MustCompile(`</summary>\s*<form method="post" action="([^"]*)"`)
		for _, found := range uri.FindAllStringSubmatch(page, -1) {
			actions = append(actions, strings.ReplaceAll(found[1], "&amp;", "&"))
		}
		if len(actions) != 3 {
			t.Fatalf("forms %q, want one for each rule and one for all: %s", actions, page)
		}
		r := s.post(actions[1], http.StatusSeeOther)
		next, err := r.Location()
		if err != nil || s.used(s.login, key) != 0 || s.used(s.api, key) != 2 {
			t.Errorf("after the reset of login: %d and %d used, %v", s.used(s.api, key), s.used(s.login, key), err)
		}
		after := s.get(strings.TrimPrefix(next.String(), s.url), http.StatusOK, "Reset in all rules")
		if after.Request.URL.Query().Get("key") != key {
			t.Errorf("the browser goes to %s", next)
		}
		count()
		s.post(actions[2], http.StatusSeeOther)
		if s.used(s.login, key) != 0 || s.used(s.api, key) != 0 {
			t.Errorf("after the reset of all: %d and %d used", s.used(s.api, key), s.used(s.login, key))
		}
		count()
		query := "&key=" + url.QueryEscape(key)
		s.post("reset.json?limiter=api&rule="+query, http.StatusOK, `"limiter": "api"`, `"rule": ""`)
		if s.used(s.login, key) != 2 || s.used(s.api, key) != 0 || s.used(s.api, "user:other") != 3 {
			t.Errorf("after the reset of api: %d and %d used", s.used(s.api, key), s.used(s.login, key))
		}
	}
}

// TestResetIsRefused: what is no reset changes nothing: a GET, a POST of another site's page,
// and a query that does not say what to reset.
func TestResetIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.take(s.api, "user:42", 2)
	const all = "reset?user=42&all=1"
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS"} {
		r := s.send(method, all)
		if r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "POST" {
			t.Errorf("%s: status %d, Allow %q", method, r.StatusCode, r.Header.Get("Allow"))
		}
	}
	for _, fields := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"},
		{"Origin", "null"},
	} {
		for _, path := range []string{all, "reset.json?user=42&all=1"} {
			s.check(s.send("POST", path, fields...), http.StatusForbidden, "cross-origin")
		}
	}
	for query, says := range map[string]string{
		"user=42":                        "say what to reset",
		"user=42&all=0":                  "either all=1 or",
		"user=42&rule=api":               "there is no limiter",
		"user=42&user=43&all=1":          "more than one client",
		"ip=::1&ipv6-prefix=129&all=1":   "give 1 to 128",
		"ip=::1&ipv6-prefix=x&all=1":     "give 1 to 128",
		"user=42&all=1&limiter=api":      "either all=1 or",
		"user=42&limiter=api&rule=logon": "there is no limiter &#34;api&#34; with the rule &#34;logon&#34;",
		"all=1":                          "no client is named",
		"user=42&ip=198.51.100.7&all=1":  "more than one client",
		"header=X-Tenant&all=1":          "such as X-Tenant=acme",
		"user=42&ipv6-prefix=64&all=1":   "ipv6-prefix belongs to ip",
		"ip=42&all=1":                    "is not an address",
		"ip=::1&ipv6-prefix=0&all=1":     "give 1 to 128",
		"user=42&all=1&x=%zz":            "cannot be read",
	} {
		s.post("reset?"+query, http.StatusBadRequest, says)
	}
	s.post("reset?all=1&user="+strings.Repeat("x", 32<<10), http.StatusRequestURITooLong, "too long")
	if got := s.used(s.api, "user:42"); got != 2 {
		t.Errorf("%d used, want 2 as before", got)
	}
	origin := strings.TrimSuffix(s.url, "/admin/limits/")
	for _, fields := range [][]string{{"Sec-Fetch-Site", "same-origin"}, {"Origin", origin}} {
		s.take(s.api, "user:42", 2)
		s.check(s.send("POST", all, fields...), http.StatusSeeOther)
		if got := s.used(s.api, "user:42"); got != 0 {
			t.Errorf("%q: %d used after a reset", fields, got)
		}
	}
}
