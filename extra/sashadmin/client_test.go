package sashadmin_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/extra/sashadmin"
	"github.com/sashlimit/sash/internal/errs"
	"github.com/sashlimit/sash/keyfuncs"
)

// TestRules: the rules are there with their limits and policies, as a page and in JSON.
func TestRules(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for _, path := range []string{"", "rules"} {
		s.get(path, http.StatusOK, "<td>api</td><td>100/1h, 1000/8784h counter named yearly</td><td>fail open</td>",
			"<td>api, rule login</td><td>5/1h</td><td>fail closed</td>", `<form action="client">`, ">Help</a>")
	}
	s.get("rules.json", http.StatusOK, `{ "rules": [ { "limiter": "api", "rule": "", "policy": "fail open", `+
		`"limits": [ { "limit": "100/1h", "name": "1h0m0s", "requests": 100, "window_seconds": 3600, `+
		`"algorithm": "log" }, { "limit": "1000/8784h counter named yearly", "name": "yearly", "requests": 1000, `+
		`"window_seconds": 31622400, "algorithm": "counter" } ] }, `+
		`{ "limiter": "api", "rule": "login", "policy": "fail closed", `)
}

// TestClient: a client is found by its address, its user and its key, in all rules.
func TestClient(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for key, query := range map[string]string{
		"user:42":                    "user=42",
		"user:a b&c":                 "user=a+b%26c&ip=&key=&ipv6-prefix=",
		"ip:198.51.100.7":            "ip=198.51.100.7",
		"ip:2001:db8::/64":           "ip=2001:db8::1",
		"ip:2001:db8::/48":           "ip=2001:db8:0:7::1&ipv6-prefix=48",
		keyfuncs.APIKeyKey("secret"): "key=" + keyfuncs.APIKeyKey("secret"),
		"header:x-tenant:acme=1":     "header=X-Tenant%3Dacme%3D1",
		keyfuncs.APIKeyKey("id 7"):   "api-key-id=id+7",
		"any\x00\xff":                "key=any%00%ff",
	} {
		s.take(s.api, key, 3)
		s.take(s.login, key, 5)
		shown, _ := json.Marshal(key)
		s.get("client.json?"+query, http.StatusOK, `{ "client": `+string(shown)+`, "rules": [ `+
			`{ "limiter": "api", "rule": "", "exhausted": false, "at": "20`, `"used": 3, "remaining": 97, "reset_after`,
			`"algorithm": "counter", "used": 3, "remaining": 997, "reset_after_seconds": `,
			` ], "policy": "fail open" }, { "limiter": "api", "rule": "login", "exhausted": true, "at": "20`,
			`"algorithm": "log", "used": 5, "remaining": 0, "reset_after_seconds": 3`,
			` ], "policy": "fail closed" } ] }`)
		s.get("client?"+query, http.StatusOK, `<td>5/1h <span class="bad">at its limit</span></td>`,
			`<td class="n">5</td><td class="n bad">0</td>`,
			`<td class="n">3</td><td class="n">997</td>`, "Reset in all rules")
	}
}

// TestOutage: while a store fails, its rules have the error and the policy, and the
// other rules their numbers. A reset tells where it failed.
func TestOutage(t *testing.T) {
	t.Parallel()
	s := newSite(t, addDown)
	s.take(s.api, "user:42", 3)
	s.get("client?user=42", http.StatusServiceUnavailable, "connection &lt;refused&gt;. Policy: fail open.",
		"Policy: fail closed.",
		"Policy: fallback, shared by 4. The fallback of this process has counted:", "<td>2/1m</td>",
		`<td class="n">3</td>`)
	const errorAnswer = `"error": "sash: the store failed: connection \u003crefused\u003e" }`
	s.get("client.json?user=42", http.StatusServiceUnavailable, `"used": 3, "remaining": 97, `,
		`"limits": [], "policy": "fail open", `+errorAnswer, `"limits": [], "policy": "fail closed", `+errorAnswer,
		` } ], "policy": "fallback, shared by 4", `+errorAnswer)
	s.post("reset?user=42&all=1", http.StatusServiceUnavailable, "was not reset everywhere", "<li>api: reset</li>",
		`<li>down, rule closed: <span class="bad">sash: the store failed: connection &lt;refused`)
	s.take(s.api, "user:42", 3)
	s.post("reset.json?user=42&all=1", http.StatusServiceUnavailable, `"error": "sash: the store failed`)
	if got := s.used(s.api, "user:42"); got != 0 {
		t.Errorf("%d used of the rule that can be reset", got)
	}
}

// TestFull: a Redis that is full, where all seems well by the numbers, is seen on the pages of rules and
// clients: since when it fails, why, and how many requests the policy has decided.
func TestFull(t *testing.T) {
	t.Parallel()
	full := errs.WithHint("raise maxmemory", errors.New("OOM command not allowed"))
	store := storetest.Wrap(memstore.New(), func(ctx context.Context, call storetest.Call) (core.Decision, error) {
		if call.Verb == "Take" {
			return core.Decision{}, full
		}
		return call.Next(ctx)
	})
	failures := new(sashadmin.Failures)
	l := core.Must(core.New(core.Config{
		Name: "full", Store: store, Limits: []core.Limit{core.PerHour(5)}, Observer: failures,
	}))
	s := newSite(t, func(c *sashadmin.Config) { c.Limiters, c.Failures = append(c.Limiters, l), failures })
	if r := s.get("", http.StatusOK); strings.Contains(r.body, "by the policy") {
		t.Errorf("nothing has failed: %s", r.body)
	}
	for range 7 {
		l.Allow(t.Context(), "user:42")
	}
	for _, path := range []string{"", "client?user=42"} {
		s.get(path, http.StatusOK, `<p class="bad">The store is failing`, "since 20",
			" UTC: <code>sash: the store failed: OOM command not allowed", "raise maxmemory",
			"by the policy, in this process: 7<")
	}
	for _, path := range []string{"rules.json", "client.json?user=42"} {
		s.get(path, http.StatusOK, `"failing": true`, `"decided_by_policy": 7`, `"since": "20`, "OOM",
			"raise maxmemory")
	}
}

// TestAPIKey: the client of an API key is found without the key in a URL.
func TestAPIKey(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	key := keyfuncs.APIKeyKey("secret")
	s.take(s.api, key, 3)
	post := func(path, key string) reply {
		return read(core.Must(http.PostForm(s.url+path, url.Values{"api_key": {key}})))
	}
	r := post("api-key", "secret\n") // follows the redirect
	s.check(r, http.StatusOK, key, `<td class="n">3</td>`)
	if strings.Contains(r.Request.URL.String()+r.body, "secret") {
		t.Errorf("%s has the secret: %s", r.Request.URL, r.body)
	}
	s.check(post("api-key.json", "secret"), http.StatusOK, `{ "client": "`+key+`", `, `"used": 3, "remaining": 97, `)
	s.check(post("api-key", " "), http.StatusBadRequest, "one API key")
	s.check(post("api-key", strings.Repeat("x", 1<<20)), http.StatusBadRequest, "one API key")
	s.get("api-key", http.StatusMethodNotAllowed)
}
