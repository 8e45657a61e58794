// Package regions is one limit over several regions: a [core.Store] over the stores of the
// regions, which count on their own. It has two modes.
//
//	eu := redisstore.New(redis.NewClient(&redis.Options{Addr: "redis.eu.example:6379"}))
//	us := redisstore.New(redis.NewClient(&redis.Options{Addr: "redis.us.example:6379"}))
//	store, err := regions.New(regions.Config{
//		Here:   "eu", // the only field that differs between the regions
//		Stores: map[string]core.Store{"eu": eu, "us": us},
//		Strict: true,
//	})
//
// # Strict
//
// With Config.Strict no window holds more than a limit allows, wherever it is asked. Of R
// regions, in the order of their names, number i enforces the share
//
//	floor(N(i+1)/R) - floor(N*i/R)
//
// of each limit N in its own store. A request that is refused here asks the other regions,
// one after the other, and the first admission counts. No answer is a refusal there.
//
// Theorem S: for logs, no window holds more than N admitted units in all regions together, under
// any partition, delay, loss or crash, and any constant difference between the clocks.
//
// Proof. Each admitted unit was counted before it was told, by exactly one region, under that
// region's share; or it is a unit of a lease counted there. A store keeps every window
// of its own clock within the Requests that it is given, whatever replies are late or lost. So no
// window holds more units of a region than its share; the shares sum to N. The statement about
// one store is about lengths of time by its clock, so no offset enters. QED.
//
// A store that loses counts, as in a failover of Redis, may admit those once more; that heals
// after a window.
package regions
