// Package core decides whether a client may make another request, by limits over sliding windows, and counts the
// requests that it admits. Package nethttp limits HTTP servers by it; docs/recipes.md shows other uses.
//
//	limiter, err := core.New(core.Config{
//		Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerSecond(10), core.PerHour(1000)},
//	})
//	if d := limiter.Allow(ctx, "user:42"); !d.Allowed {
//		// tell the client to come back after d.RetryAfter
//	}
//
// # Words
//
// A [Limiter] is a set of limits under a name, on a [Store]. A rule, which [Limiter.Rule] makes, is
// another one on the same store, with counts of its own. The key names the client that is counted.
// A limit counts units; a request costs one, unless its Cost says otherwise. Of several limits a
// [Decision] is about the tightest, which binds. The policy decides while the store fails.
package core
