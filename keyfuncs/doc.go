// Package keyfuncs has key functions, which name the client of an HTTP request. Requests with the same key share a
// count. A key that a client can choose limits nothing, and a key that many clients share lets each of them use up the
// quota of the others. docs/proxies.md says which one fits a proxy.
//
//	nethttp.Middleware(limiter, keyfuncs.RemoteIP) // no proxy in front
//	nethttp.Middleware(limiter, keyfuncs.IP(keyfuncs.TrustProxies(netip.MustParsePrefix("10.0.0.0/8"))))
//
// Clients with a login or an API key are better named by [UserID] or [APIKey], since many people may share an address.
// [Header] is for a value that a gateway in front has verified. [First] uses the first of several names that a request
// has, and [Join] all of them.
//
// Keys are part of the API: Reset and Usage take them, and functions such as [IPKey] return them.
//
//	RemoteIP, IP   ip:198.51.100.7   ip:2001:db8:1:2::/64   ip:fe80::1%eth0   ip:unix
//	APIKey         apikey:0b2c109e25ac7d47cc0c56f999832031
//	UserID         user:42
//	Header         header:x-tenant:acme
//	Join           join:user:42|ip:198.51.100.7
//
// A request without a name is an error that matches [ErrNoKey], never an empty key. The functions that return a [Func]
// panic on wrong arguments, as net/http does on a nil handler; the Func itself never does. A Func reads no more than a
// few KiB of any header.
package keyfuncs
