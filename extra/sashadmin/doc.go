// Package sashadmin provides an HTTP handler for operators. Its pages and JSON show the limits, a client's usage, the
// heaviest clients and the state of the stores, and reset a client. docs/operations.md
// shows it in use.
//
// THE HANDLER HAS NO AUTHENTICATION. EVERY VISITOR SEES THE NAMES OF CLIENTS AND CAN RESET
// THEIR LIMITS. MOUNT IT BEHIND YOUR OWN AUTHENTICATION, and on a listener that the public
// does not reach if you can. The example of the package has a password.
//
//	admin, err := sashadmin.New(sashadmin.Config{Limiters: []*core.Limiter{api, login}})
//	mux.Handle("/admin/limits/", authenticate(http.StripPrefix("/admin/limits", admin)))
//
// # Paths
//
// Each path is there as a page, and with .json behind it for programs. All links are
// relative, so the handler can be mounted below any prefix that ends in a slash.
//
//	GET  /          the rules, their limits and policies; in JSON rules.json
//	GET  /client    a client's usage of the limits of all rules
//	POST /api-key   the same of the client of an API key, the api_key of a form in the body
//	GET  /heaviest  the clients that are refused and admitted most; with Config.Heaviest
//	GET  /stores    the state of the stores; with Config.Stores
//	POST /reset     reset a client
//
// A client is named in the query, by one of
//
//	ip=2001:db8::1     as keyfuncs.RemoteIP and keyfuncs.IP name it; ipv6-prefix=48 as by IPv6Prefix
//	user=42            as keyfuncs.UserID names it
//	header=X-T=acme    as keyfuncs.Header names it, by the value of the header X-T
//	api-key-id=7       as keyfuncs.APIKey names it, by the identity that the verifier returns
//	key=user:42        any, by the key itself, as it stands in logs
//
// and a reset names, in the query too, either all=1 or the names of one rule as rules.json has
// them, limiter=api&rule=login. With curl:
//
//	curl -u admin 'https://example.com/admin/limits/client.json?user=42'
//	curl -u admin -X POST 'https://example.com/admin/limits/reset.json?user=42&all=1'
//
// With Config.Refusals, the page of a client has its refusals in this process within the last hour, by the minute: the
// rule and the limit, their number, the first and the last time, and the Retry-After.
//
// With Config.Failures, the pages of rules and of clients show the failures of a rule's store in this process: their
// start, the latest error with a hint, and the number of requests that the policy decided.
//
// The status is 200; 400 for a wrong query; 403 for a POST of another site's page; 503 if a
// store failed. The answer then has the error and the policy of each rule
// that was not answered for, and the numbers of the others.
//
// # Security
//
// A GET changes nothing, and a page asks before a reset. A POST that a browser sends for a
// page of another origin is refused (see [http.CrossOriginProtection]). A page has no
// script, and no other page can frame it. No answer is stored by a cache. Keys are escaped.
// A query has at most 32 KiB.
package sashadmin
