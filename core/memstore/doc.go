// Package memstore keeps counts in the memory of this process.
//
//	limiter, err := core.New(core.Config{
//		Name:   "api",
//		Store:  memstore.New(),
//		Limits: []core.Limit{core.PerMinute(100)},
//	})
//
// It is bounded in bytes, frees what has expired as it goes, and starts no
// goroutine, so there is nothing to close. Counts are gone when the process
// ends and are not shared with other processes; see package redisstore for
// counts that are.
//
// # A full store
//
// What is evicted goes on counting: no client is ever admitted above its limit,
// however full the store. A full store evicts the clients that have used the
// least of their limits and keeps of each some bits in a sketch, with which the
// client begins when it is back. What that costs is precision, in one direction:
// a client that was evicted, or that meets others in the sketch, may be refused
// early, and its RetryAfter and ResetAfter may be too long by up to a window, never
// too short. So RetryAfter is up to two windows, and of a CoarseLog a slot more.
// Its Usage is the upper bound that such a client is decided by. Of a Bucket it may be a
// thousandth too much, nothing is given back, and what is owed for longer than two windows may
// be forgotten, or where a limiter with another window asks.
// A store that is not full is exact.
//
// # Inside
//
// A store is divided into shards by the hashes of its keys; each has a lock of
// its own.
//
//	shard  index []uint32           chunks of 73 slots         rings
//	       +-----+-------------+    +-----------------------+
//	  hash | tag | slot number | -> | hash, limit, counter  |
//	       +-----+-------------+    +-----------------------+  +-----------------+
//	       | tag | slot number | -> | hash, limit, log    * |->| stamp stamp ... |
//	       +-----+-------------+    +-----------------------+  +-----------------+
//	                                    | evicted    ^ back
//	                                    v            |
//	       sketch, by windows       +-----------------------------------------+
//	       hash of key and limit -> | epoch, rest, 8 x (print, older, newer)  |
//	                                +-----------------------------------------+
//
// A slot is one client under one limit, in 56 bytes. A slot of a log with more
// than two entries has a ring of stamps. A bucket of the sketch is 64 bytes: 8
// entries of 16 bits of a hash and the client's units in the newest epoch and the
// one before, and what all other clients of the bucket have at most.
package memstore
