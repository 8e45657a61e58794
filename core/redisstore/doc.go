// Package redisstore keeps counts in Redis: on a single server, behind
// Sentinel, on a Cluster, or on a Ring. Every process on the same data shares
// the counts.
//
//	store, err := redisstore.Open("redis://127.0.0.1:6379/0") // or redisstore.New(client)
//	...
//	defer store.Close()
//	limiter, err := core.New(core.Config{
//		Name:   "api",
//		Store:  store,
//		Limits: []core.Limit{core.PerMinute(100)},
//	})
//
// A decision is one round trip and one script, whatever the number of limits, and
// decisions that wait at the same time share a round trip. A caller that has little
// company sends its request itself: see [New] for how such a caller leaves. A client
// that has been refused is refused without asking until it may pass, except for one
// request a second. The clock is the server's. Constructors do not wait for
// Redis, so a program starts while Redis is down. The first rule that is bound has
// a connection made in the background.
//
// # The way of a decision
//
// A request goes down a chain of links: each is a core.Ledger around the next one, which it knows by that interface
// alone. A link answers the request itself, or asks the next and learns from what comes back.
//
//	link        where                     answers                                               costs
//
//	limiter     core
//	   |
//	lease       core/internal/lease       a busy client, from units that were taken ahead;      0.1 to 0.2 µs,
//	   |                                  a rule has this link with WithLease only              no memory
//	   |
//	denycache   core/internal/denycache   a client that has been refused, until it may pass;    0.1 µs,
//	   |                                  one request a second goes on, to see a reset          no memory
//	   |
//	ledger      ledger.go                 together with what waits for the same server:
//	   |-- batches   batch.go             one script for all, on a single server, once a        part of a round trip
//	   |                                  probe has seen that it may be so (joint.go)
//	   |-- pipeline  batch.go             one pipeline for all, to a master or a shard          part of a round trip
//	   '-- alone     ledger.go            while a breaker is not closed, before a cluster's     a round trip,
//	                                      map is known, and what was not decided together,      a goroutine
//	                                      because a slot has moved for example
//
// What is said to Redis is in internal/script: keys and calls, the scripts, and how a reply is read. All calls are sent
// by internal/server, each once and in time. It knows the servers, their breakers and connections.
package redisstore
