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
// A full store looks at a few clients, evicts the one that has used the least of
// its limit, and keeps an estimate of it in a sketch. The client begins with this
// estimate when it is back. So evicted units go on counting, and no client is
// admitted above its limit, with one exception: a Bucket's debt of more than two
// windows may be discarded, and any debt if a limiter with another window asks.
//
// The cost is precision: a client that was evicted, or that shares an entry of the
// sketch, may be refused early. Its RetryAfter and ResetAfter may be too long by up
// to a window, never too short: RetryAfter is up to two windows, and with a
// CoarseLog a sixtieth more (longer if a store has rules over more than 28 different
// windows). Its Usage is this upper bound, with a Bucket up to a thousandth higher.
// Return gives nothing back for an evicted client, nor under a Bucket or a
// SlidingCounter when it is back. Until a store is full, none of this applies.
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
//	       sketch, by windows       +-----------------------------------------------+
//	       hash of key and limit -> | epoch, others, 8 x (fingerprint, older, newer)|
//	                                +-----------------------------------------------+
//
// A slot is one client under one limit, in 56 bytes. A log has a ring of stamps
// from the third entry on. A cost other than 1 makes it a ring of pairs, of a stamp
// and a total. A cell of the sketch is 64 bytes: 8 entries of a fingerprint (16 bits
// of a hash) and the client's units in the newest epoch and the one before, and an
// upper bound for all other clients of the cell.
package memstore
