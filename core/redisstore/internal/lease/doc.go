// Package lease takes units of a busy client's limit ahead and spends them without asking the store. What that
// promises is written at redisstore.WithLease.
//
//	Rule.Take --- the lease has enough: spend -----------------------> answered, nothing is asked
//	   |
//	   |--------- a refusal is remembered ---------------------------> answered, nothing is asked
//	   |
//	   |--------- no lease can hold the cost, or a peek -------------> asked alone
//	   |--------- must ask whether a refusal still holds ------------> asked alone
//	   |--------- the client is refused, or asks for too little -----> asked alone
//	   |
//	   |--------- no renewal is under way: start one ----------------> answered by it
//	   '--------- wait for the renewal under way, then anew, or
//	              alone if it is late, lost or in vain
//
// The words that the code uses:
//
//   - A lease is units that have been taken, and what is known of the client that they are for: table.go, lease.go.
//   - A holder is a client under a rule.
//   - A renewal is a request for the next lease, under way in a goroutine of its own: renewal.go.
//   - Patience is how long a request waits for a renewal that another caller started: patience.go.
//
// A request asked alone is a request of its own to the next link, which may send it together with others.
package lease
