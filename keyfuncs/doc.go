// Package keyfuncs holds functions that name the client of an HTTP request.
// Requests of one name share one count, so the name decides which requests are
// limited together: a name that a client can choose limits nothing, and one that
// many clients share lets each of them use up the quota of the others.
//
//	nethttp.Middleware(limiter, keyfuncs.RemoteIP) // no proxy in front
//	nethttp.Middleware(limiter, keyfuncs.IP(keyfuncs.TrustProxies(netip.MustParsePrefix("10.0.0.0/8"))))
//
// # Choosing
//
// Without a proxy in front, [RemoteIP] is right for clients that have not
// logged in. Behind a reverse proxy, a load balancer or a CDN use [IP] and say
// which proxies are yours: X-Forwarded-For is whatever the client likes, up to
// what your own proxies have appended to it. Clients that have logged in or
// hold a key are better named by [UserID] or [APIKey], which do not mix up the
// people behind one address. [Header] is for what a gateway in front has
// verified. [First] takes the first name that a request has, and [Join] several
// of them together:
//
//	failures := core.Must(limiter.Rule("apikey-failures", core.PerMinute(10).Named("apikey-failures")))
//	apiKey := keyfuncs.APIKey("X-API-Key", identify, keyfuncs.LimitFailures(failures, keyfuncs.RemoteIP))
//	client := keyfuncs.First(apiKey, keyfuncs.RemoteIP)
//
// # Keys
//
// Keys say what they are, and are part of the API: they are what Reset takes.
//
//	RemoteIP, IP   ip:198.51.100.7   ip:2001:db8:1:2::/64   ip:fe80::1%eth0   ip:unix
//	APIKey         apikey:0b2c109e25ac7d47cc0c56f999832031   (see APIKeyString)
//	UserID         user:42
//	Header         header:x-tenant:acme
//	Join           join:user:42|ip:198.51.100.7              (see JoinString)
//
// [IPString], [APIKeyString], [UserIDString], [HeaderString] and [JoinString] return the
// key of a client from what is known of it, for Reset and Usage.
//
// # Errors
//
// A request without such a name is an error that matches [ErrNoKey], never an
// empty key. A request that gives its name in a way that could be read as two is
// an error that matches [ErrBadRequest], and no function after that names it. The
// functions that make a [Func] panic on what cannot work, as net/http does on a
// nil handler; the Func itself never does.
//
// # Cost
//
// Of any header, a few KiB are looked at, whatever its size: values above 8 KiB
// are refused or not believed.
package keyfuncs
