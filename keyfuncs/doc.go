// Package keyfuncs holds functions that name the client of an HTTP request. Requests of one name share one count, so
// the name decides which requests are limited together: a name that a client can choose limits nothing, and one that
// many clients share lets each of them use up the quota of the others.
//
//	nethttp.Middleware(limiter, keyfuncs.RemoteIP) // no proxy in front
//	nethttp.Middleware(limiter, keyfuncs.IP(keyfuncs.TrustProxies(netip.MustParsePrefix("10.0.0.0/8"))))
//
// Clients that have logged in or hold a key are better named by [UserID] or [APIKey], which do not mix up the people
// behind one address. [Header] is for what a gateway in front has verified. [First] takes the first name that a
// request has, and [Join] several of them together.
//
// Keys are part of the API: Reset and Usage take them, and [IPKey] and its kin return them.
//
//	RemoteIP, IP   ip:198.51.100.7   ip:2001:db8:1:2::/64   ip:fe80::1%eth0   ip:unix
//	APIKey         apikey:0b2c109e25ac7d47cc0c56f999832031
//	UserID         user:42
//	Header         header:x-tenant:acme
//	Join           join:user:42|ip:198.51.100.7
//
// A request without such a name is an error that matches [ErrNoKey], never an empty key. The functions that make a
// [Func] panic on what cannot work, as net/http does on a nil handler; the Func itself never does. Of any header, a
// few KiB are looked at, whatever its size.
package keyfuncs
