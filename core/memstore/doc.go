// Package memstore keeps counts in the memory of this process. Package redisstore keeps counts that processes share.
//
//	limiter, err := core.New(core.Config{
//		Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerMinute(100)},
//	})
//
// A store is bounded in bytes, frees what has expired as it goes, and starts no goroutine, so there is nothing to
// close. Its counts are gone when the process ends.
//
// # A full store
//
// Evicted units go on counting: no client is ever admitted above its limit,
// however full the store. A full store evicts the clients that have used the
// least of their limits, and keeps an estimate of each in a sketch. The client
// begins with this estimate when it is back. The cost is precision, in one
// direction: a client that was evicted, or that shares an entry of the sketch,
// may be refused early. Its RetryAfter and ResetAfter may be too long by up to a
// window, never too short: RetryAfter is up to two windows, and with a CoarseLog a
// slot more. Its Usage is this upper bound. With a Bucket the bound may be a
// thousandth too high, and Return gives nothing back. A debt of more than two
// windows may be discarded, as may any debt if a limiter with another window asks.
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
// one before, and an upper bound for all other clients of the bucket.
package memstore
