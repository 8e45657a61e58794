// Package redisstore keeps counts in Redis: on a single server, behind
// Sentinel, on a Cluster, or on a Ring. Every process on the same data shares
// the counts.
//
// A decision is one round trip and one script, whatever the number of limits, and
// decisions that wait at the same time share a round trip. A caller that has little
// company sends its request itself: see [New] for how such a caller leaves. A client
// that has been refused is refused without asking until it may pass, except for one
// request a second. The clock is the server's. Constructors do not talk to Redis, so
// a program starts while Redis is down.
package redisstore
