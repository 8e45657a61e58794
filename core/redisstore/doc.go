// Package redisstore keeps counts in Redis, which all processes on the same data share. docs/redis.md shows the clients
// for Sentinel, a Cluster, a Ring and TLS, and docs/design.md the road of a decision.
//
//	store, err := redisstore.Open("redis://127.0.0.1:6379/0") // or redisstore.New(client)
//	...
//	defer store.Close()
//	limiter, err := core.New(core.Config{Name: "api", Store: store, Limits: []core.Limit{core.PerMinute(100)}})
//
// A decision is one round trip and one script, whatever the number of limits, and
// decisions that wait at the same time share a round trip. A caller that has little
// company sends its request itself: see [New] for how such a caller leaves. A client
// that has been refused is refused without asking until it may pass, except for one
// request a second. The clock is the server's. Constructors do not wait for
// Redis, so a program starts while Redis is down. The first rule that is bound has
// a connection made in the background.
package redisstore
