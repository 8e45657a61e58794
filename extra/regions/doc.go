// Package regions is one limit over several regions: a [core.Store] over the stores of the
// regions, each of which counts on its own.
//
//	eu := redisstore.New(redis.NewClient(&redis.Options{Addr: "redis.eu.example:6379"}))
//	us := redisstore.New(redis.NewClient(&redis.Options{Addr: "redis.us.example:6379"}))
//	store, err := regions.New(regions.Config{
//		Here:   "eu", // the only field that differs between the regions
//		Stores: map[string]core.Store{"eu": eu, "us": us},
//	})
//
// A decision takes one round trip in its own region, by what the others had admitted at the last look, 0.2 s
// and a round trip ago: all regions together have then admitted at most the limit and what the others
// have since that look. Where no look comes, each region keeps to its share. With Config.Strict no window
// holds more than the limit N, and by a [core.Bucket] no stretch t more than N + N*t/W, under any partition,
// delay, loss or crash; a client that uses more than a part of its limit in one region waits for others.
// Theorems E and S, beside the code of the two modes, say and prove this.
//
// No time stamp crosses a region, so a constant difference between the stores' clocks has no effect.
// docs/regions.md says when to take which mode, and what a partition does.
package regions
