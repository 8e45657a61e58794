package sashadmin_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
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
	got := decode[struct {
		Rules []struct {
			Limiter, Rule, Policy string
			Limits                []struct {
				Limit           core.Limit
				Name, Algorithm string
				Requests        int64
				WindowSeconds   float64 `json:"window_seconds"`
			}
		}
	}](s, s.get("rules.json", http.StatusOK)).Rules
	if len(got) != 2 || got[0].Limiter != "api" || got[0].Rule != "" || got[1].Rule != "login" ||
		got[1].Policy != "fail closed" || len(got[0].Limits) != 2 {
		t.Fatalf("%+v", got)
	}
	yearly := got[0].Limits[1]
	if yearly.Limit != core.Per(1000, core.MaxWindow).Using(core.SlidingCounter).Named("yearly") ||
		yearly.Name != "yearly" || yearly.Algorithm != "counter" ||
		yearly.Requests != 1000 || yearly.WindowSeconds != 366*86400 {
		t.Errorf("%+v", yearly)
	}
}

// clientJSON is what client.json answers.
type clientJSON struct {
	Client string
	Rules  []struct {
		Limiter, Rule, Policy, Error string
		Exhausted                    bool
		At                           time.Time
		Limits                       []struct {
			Limit             string
			Used, Remaining   int64
			ResetAfterSeconds float64 `json:"reset_after_seconds"`
		}
	}
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
		got := decode[clientJSON](s, s.get("client.json?"+query, http.StatusOK))
		if got.Client != strings.ToValidUTF8(key, "\ufffd") || len(got.Rules) != 2 {
			t.Fatalf("%q: %+v", key, got)
		}
		api, login := got.Rules[0], got.Rules[1]
		if api.Limiter != "api" || api.Exhausted || len(api.Limits) != 2 || api.Limits[0].Used != 3 ||
			api.Limits[1].Used != 3 || api.Limits[1].Remaining != 997 || api.Error != "" || api.Policy != "fail open" {
			t.Errorf("%q: %+v", key, api)
		}
		if login.Rule != "login" || !login.Exhausted || login.Limits[0].Used != 5 || login.Limits[0].Remaining != 0 ||
			login.Limits[0].ResetAfterSeconds < 3000 || login.Limits[0].Limit != "5/1h" || login.At.IsZero() {
			t.Errorf("%q: %+v", key, login)
		}
		s.get("client?"+query, http.StatusOK, `<td>5/1h <span class="bad">at its limit</span></td>`,
			`<td class="n">5</td><td class="n bad">0</td>`,
			`<td class="n">3</td><td class="n">997</td>`, "Reset in all rules")
	}
}

// TestOutage: while a store cannot be asked, its rules have the error and the policy, and the
// other rules their numbers. A reset tells where it failed.
func TestOutage(t *testing.T) {
	t.Parallel()
	s := newSite(t, addDown)
	s.take(s.api, "user:42", 3)
	s.get("client?user=42", http.StatusServiceUnavailable, "connection &lt;refused&gt;. Policy: fail open.",
		"Policy: fail closed.",
		"Policy: fallback, shared by 4. The fallback of this process has counted:", "<td>2/1m</td>",
		`<td class="n">3</td>`)
	got := decode[clientJSON](s, s.get("client.json?user=42", http.StatusServiceUnavailable)).Rules
	if len(got) != 5 || got[0].Error != "" || got[0].Limits[0].Used != 3 || len(got[2].Limits) != 0 ||
		!strings.Contains(got[2].Error, "connection <refused>") ||
		got[3].Policy != "fail closed" || len(got[4].Limits) != 1 {
		t.Errorf("%+v", got)
	}
	s.post("reset?user=42&all=1", http.StatusServiceUnavailable, "was not reset everywhere", "<li>api: reset</li>",
		`<li>down, rule closed: <span class="bad">sash: the store could not be asked: connection &lt;refused`)
	s.take(s.api, "user:42", 3)
	s.post("reset.json?user=42&all=1", http.StatusServiceUnavailable, `"error": "sash: the store could not be asked`)
	if got := s.used(s.api, "user:42"); got != 0 {
		t.Errorf("%d used of the rule that can be reset", got)
	}
}

// TestFull: a Redis that is full, where all seems well by the numbers, is seen on the pages of rules and
// clients: since when it fails, why, and how many requests the policy has decided.
func TestFull(t *testing.T) {
	t.Parallel()
	full := errs.WithRemedy("raise maxmemory", errors.New("OOM command not allowed"))
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
			" UTC: <code>sash: the store could not be asked: OOM command not allowed", "raise maxmemory",
			"by the policy, in this process: 7<")
	}
	for _, path := range []string{"rules.json", "client.json?user=42"} {
		s.get(path, http.StatusOK, `"failing": true`, `"decided_by_policy": 7`, `"since": "20`, "OOM", "raise maxmemory")
	}
}

// TestAPIKey: the client of an API key is found without the key in a URL.
func TestAPIKey(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	key := keyfuncs.APIKeyKey("secret")
	s.take(s.api, key, 3)
	post := func(path, body string) reply {
		t.Helper()
		w, err := http.Post(s.url+path, "application/x-www-form-urlencoded", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer w.Body.Close()
		text, err := io.ReadAll(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		return reply{w, string(text)}
	}
	r := post("api-key", "api_key=secret%0A") // follows the redirect
	if s.check(r, http.StatusOK, key, `<td class="n">3</td>`); strings.Contains(r.Request.URL.String()+r.body, "secret") {
		t.Errorf("%s has the secret: %s", r.Request.URL, r.body)
	}
	got := decode[clientJSON](s, post("api-key.json", "api_key=secret"))
	if got.Client != key || got.Rules[0].Limits[0].Used != 3 {
		t.Errorf("%+v", got)
	}
	s.check(post("api-key", "api_key=+"), http.StatusBadRequest, "one API key")
	s.check(post("api-key", "api_key="+strings.Repeat("x", 1<<20)), http.StatusBadRequest, "one API key")
	s.get("api-key", http.StatusMethodNotAllowed)
}

// TestRedis: the state of a store in Redis is shown, without the times that are none.
func TestRedis(t *testing.T) {
	t.Parallel()
	stats := redisstore.Stats{Breakers: []redisstore.Breaker{
		{Server: "a:1", State: redisstore.StateClosed, Changed: time.Unix(9, 0)},
	}}
	s := newSite(t, func(c *sashadmin.Config) { c.Stores["redis"] = func() any { return stats } })
	s.get("stores", http.StatusOK, "<h2>redis</h2>",
		"<td>Breakers 1 State</td><td><code>closed</code></td>", " UTC</code></td>")
	if r := s.get("stores.json", http.StatusOK); strings.Contains(r.body, "0001-01-01") {
		t.Errorf("got a time that is none: %s", r.body)
	}
}
