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
// request a second. The clock is the server's. Constructors do not talk to Redis, so
// a program starts while Redis is down.
//
// # The way of a decision
//
// A request goes down a chain of links. A link answers the request itself, or asks the next link and learns from what
// comes back. Each has one verb, take, and a file of its own.
//
//	link             file                answers                                              costs
//
//	limiter
//	   |
//	leases           lease.go            a busy client, from units that were taken ahead;     0.1 to 0.2 µs,
//	   |             internal/lease      a rule has this link with WithLease only             no memory
//	   |
//	remembered       remembered.go       a client that has been refused, until it may pass;   0.1 µs,
//	   |             internal/refused    one request a second goes on, to see a reset         no memory
//	   |
//	gathered         gathered.go         together with what waits for the same server:
//	   |-- batch     batch.go            one script for all, on a single server               part of a round trip
//	   |-- pipeline  pipeline.go         one pipeline for all, to a master or a shard         part of a round trip
//	   |
//	sent             sent.go             alone: while a breaker is not closed, before a       a round trip,
//	                                     cluster's map is known, and what was not decided     a goroutine
//	                                     together, because a slot has moved for example
//
// The last two send through send.go, which knows deadlines, and sent through guarded.go, which asks the breaker first;
// server.go knows the server of a key. counts.go makes keys and commands, script.go the script, and reply.go reads the
// reply.
package redisstore
