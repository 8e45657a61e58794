// Package regions applies one limit to several regions. Its [core.Store] uses a separate store in each region.
// docs/regions.md compares its modes and describes the effects of a partition.
//
//	eu := redisstore.New(redis.NewClient(&redis.Options{Addr: "redis.eu.example:6379"}))
//	us := redisstore.New(redis.NewClient(&redis.Options{Addr: "redis.us.example:6379"}))
//	store, err := regions.New(regions.Config{
//		Local:  "eu", // the only field that differs between the regions
//		Stores: map[string]core.Store{"eu": eu, "us": us},
//	})
//
// A decision takes one round trip in the local region. It subtracts the units that the others had admitted at the last
// poll, 0.2 s and a round trip ago. So all regions together admit at most the limit and the units that the others
// admitted since that poll. Without polls each region admits its share. With Config.Strict no window holds more than
// the limit N, and by a [core.Bucket] no interval t more than N + N*t/W, under any partition, delay, loss or crash; a
// client that uses more than a part of its limit in one region waits for others. Theorems E and S, beside the code of
// the two modes, state and prove this.
//
// No time stamp crosses a region, so a constant difference between the stores' clocks has no effect.
package regions
