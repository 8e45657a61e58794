// Package core is the engine of sash: it decides whether a client may make
// another request, by limits over sliding windows, and counts the requests
// that it admits.
//
// It knows nothing of HTTP (see package nethttp and the adapters) nor of where
// counts are kept (see packages memstore and redisstore), and imports nothing
// but the standard library.
//
//	limiter, err := core.New(core.Config{
//		Name:   "api",
//		Store:  memstore.New(),
//		Limits: []core.Limit{core.PerSecond(10), core.PerHour(1000)},
//	})
//	...
//	if d := limiter.Allow(ctx, "user:42"); !d.Allowed {
//		// tell the client to come back after d.RetryAfter
//	}
package core
