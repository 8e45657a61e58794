package keyfuncs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/keyfuncs"
)

// Behind load balancers on a network of one's own.
func ExampleIP() {
	key := keyfuncs.IP(keyfuncs.TrustProxies(netip.MustParsePrefix("10.0.0.0/8")))

	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "10.0.0.1:4711" // the load balancer
	r.Header.Set("X-Forwarded-For", "192.0.2.1, 198.51.100.7, 10.0.0.9")
	fmt.Println(key(r)) // 192.0.2.1 is what the client claimed

	r.RemoteAddr = "203.0.113.5:4711" // not the load balancer
	fmt.Println(key(r))
	// Output:
	// ip:198.51.100.7 <nil>
	// ip:203.0.113.5 <nil>
}

// Behind a CDN and a load balancer, with no way to the server but through
// both.
func ExampleTrustHops() {
	key := keyfuncs.IP(keyfuncs.TrustHops(2))

	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "10.0.0.1:4711"                                           // the load balancer, the first hop
	r.Header.Set("X-Forwarded-For", "192.0.2.1, 198.51.100.7, 203.0.113.90") // the CDN is the last entry
	fmt.Println(key(r))
	// Output: ip:198.51.100.7 <nil>
}

func ExampleFromHeader() {
	cdn := netip.MustParsePrefix("203.0.113.0/24") // as published by the CDN
	key := keyfuncs.IP(keyfuncs.TrustProxies(cdn), keyfuncs.FromHeader("CF-Connecting-IP"))

	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "203.0.113.90:4711"
	r.Header.Set("CF-Connecting-IP", "198.51.100.7")
	fmt.Println(key(r))
	// Output: ip:198.51.100.7 <nil>
}

func ExampleOnUntrusted() {
	key := keyfuncs.IP(
		keyfuncs.TrustProxies(netip.MustParsePrefix("10.0.0.0/8")),
		keyfuncs.OnUntrusted(func(r *http.Request, reason string) {
			fmt.Println("not trusted:", reason) // better: count it
			slog.Debug("header not trusted", "reason", reason, "peer", r.RemoteAddr)
		}),
	)

	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "10.0.0.1:4711"
	r.Header.Set("X-Forwarded-For", "192.0.2.1, unknown")
	fmt.Println(key(r))
	// Output:
	// not trusted: malformed
	// ip:10.0.0.1 <nil>
}

func ExampleAPIKey() {
	accounts := map[string]string{"demo-key-1": "acme", "demo-key-2": "acme"} // in a cache or a database
	key := keyfuncs.APIKey("X-API-Key", func(_ context.Context, presented string) (id string, err error) {
		return accounts[presented], nil // empty: the key was not issued
	})

	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-API-Key", "demo-key-1")
	fmt.Println(key(r))
	r.Header.Set("X-API-Key", "demo-key-2")
	fmt.Println(key(r)) // another key of the same account

	r.Header.Set("X-API-Key", "invented")
	_, err := key(r)
	fmt.Println(errors.Is(err, keyfuncs.ErrNoKey))
	// Output:
	// apikey:822b33ad87c148a0a20a5ba7cd5ebcaa <nil>
	// apikey:822b33ad87c148a0a20a5ba7cd5ebcaa <nil>
	// true
}

// After two wrong keys from one address, each key from there is refused.
func ExampleLimitFailures() {
	limiter := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerMinute(100)}}))
	failures := core.Must(limiter.Rule("apikey-failures", core.PerMinute(2).Named("apikey-failures")))
	identify := func(_ context.Context, presented string) (string, error) {
		return map[string]string{"demo-key-1": "acme"}[presented], nil
	}
	key := keyfuncs.First(
		keyfuncs.APIKey("X-API-Key", identify, keyfuncs.LimitFailures(failures, keyfuncs.RemoteIP)),
		keyfuncs.RemoteIP,
	)

	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "198.51.100.7:52241"
	for _, guess := range []string{"demo-key-0", "demo-key-2", "demo-key-1"} {
		r.Header.Set("X-API-Key", guess)
		name, err := key(r)
		if refused, ok := errors.AsType[*keyfuncs.RefusedError](err); ok {
			fmt.Println("refused by", refused.Decision.Limit.Name)
			continue
		}
		fmt.Println(name, err)
	}
	// Output:
	// ip:198.51.100.7 <nil>
	// ip:198.51.100.7 <nil>
	// refused by apikey-failures
}

func ExampleAddr() {
	office := netip.MustParsePrefix("198.51.100.0/24")
	addr := keyfuncs.Addr(keyfuncs.TrustHops(1))

	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Forwarded-For", "198.51.100.7")
	a, err := addr(r)
	fmt.Println(office.Contains(a), err)
	// Output: true <nil>
}

// The user is in the context, where the authentication in front has put it.
func ExampleUserID() {
	type userKey struct{}
	key := keyfuncs.UserID(func(ctx context.Context) (string, bool) {
		id, ok := ctx.Value(userKey{}).(string)
		return id, ok
	})
	r := httptest.NewRequest("GET", "/", nil)
	fmt.Println(key(r.WithContext(context.WithValue(r.Context(), userKey{}, "42"))))
	// Output: user:42 <nil>
}

// A gateway in front has verified the tenant. A request without one is counted by its address, and one without an
// address together with all others.
func ExampleFirst() {
	key := keyfuncs.First(keyfuncs.Header("X-Tenant"), keyfuncs.RemoteIP, keyfuncs.AllClients)
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "@" // of a unix socket
	fmt.Println(key(r))
	r.RemoteAddr = "198.51.100.7:4711"
	fmt.Println(key(r))
	r.Header.Set("X-Tenant", "acme")
	fmt.Println(key(r))
	// Output:
	// all-clients <nil>
	// ip:198.51.100.7 <nil>
	// header:x-tenant:acme <nil>
}

// Each tenant at each address has a count. JoinKeys makes the same key of two names, for Reset and Usage.
func ExampleJoin() {
	key := keyfuncs.Join(keyfuncs.Header("X-Tenant"), keyfuncs.RemoteIP)
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Tenant", "acme")
	fmt.Println(key(r))
	fmt.Println(keyfuncs.JoinKeys("header:x-tenant:acme", "ip:192.0.2.1"))
	// Output:
	// join:header:x-tenant:acme|ip:192.0.2.1 <nil>
	// join:header:x-tenant:acme|ip:192.0.2.1
}

// An operator resets an account, which stands in the store under a hash.
func ExampleAPIKeyKey() {
	fmt.Println(keyfuncs.APIKeyKey("acme"))
	// Output: apikey:822b33ad87c148a0a20a5ba7cd5ebcaa
}
