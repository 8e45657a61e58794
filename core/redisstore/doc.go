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
// # The road of a decision
//
//	limiter                          core
//	   |
//	lease      core/internal/lease      a busy client, from units that were taken ahead; with WithLease only
//	   |
//	denycache  core/internal/denycache  a client that has been refused, until it may pass
//	   |
//	ledger     ledger.go                a rule: its keys, its script
//	   |
//	server     internal/server          the server of the client's key; no request waits while its breaker is open
//	   |
//	queue      internal/batch           requests that wait for the same server go together, as a batch; one alone is a
//	   |                                batch of one
//	call       internal/server          a batch becomes one script, or a pipeline of scripts; it has a deadline, and
//	   |                                gives the breaker one result
//	go-redis                            its pool, and its client of a cluster
//
// Each link above the server is a core.Ledger around the next one. A link answers the request itself, or asks the next
// and learns from the answer. Package internal/script has the keys, the scripts, and how a reply is read.
package redisstore
