// Package sashadmin is an HTTP handler for operators: pages and JSON that show what limits
// there are, what a client has used of them, which clients are the heaviest, and how the
// stores are, and that reset a client.
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
//	GET  /client    what a client has used of the limits of all rules
//	GET  /heaviest  the clients that are refused and admitted most; with Config.Heaviest
//	GET  /stores    the state of the stores; with Config.Stores
//	POST /reset     forget what is counted for a client
//
// A client is named in the query, by one of
//
//	ip=2001:db8::1     as keyfuncs.RemoteIP and keyfuncs.IP name it; bits=48 as by IPv6Prefix
//	user=42            as keyfuncs.UserID names it
//	key=header:x:acme  any other, by the key itself. For an API key it is what
//	                   keyfuncs.APIKeyString returns: a secret does not belong into a URL
//
// and a reset names, in the query too, either all=1 or the names of one rule as rules.json has
// them, limiter=api&rule=login. With curl:
//
//	curl -u admin 'https://example.com/admin/limits/client.json?user=42'
//	curl -u admin -X POST 'https://example.com/admin/limits/reset.json?user=42&all=1'
//
// The status is 200; 400 for a wrong query; 403 for a POST of another site's page; 503 if a
// store could not be asked. The answer then has the error and the policy of each rule
// that was not answered for, and the numbers of the others.
//
// # What is promised
//
// A GET changes nothing. A POST that a browser sends for a page of another origin is refused
// (see [http.CrossOriginProtection]). A page has no script, and no other page can frame it. No
// answer is stored by a cache. Keys are escaped. A query has at most 32 KiB.
package sashadmin
