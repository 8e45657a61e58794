// Package lease is a link in front of any [core.Ledger] that honours Override.Ahead. It takes units of a busy client's
// limit ahead and spends them without asking the next link.
//
// No window of a limit holds too many: a lease is counted at its end, all of it at once, which is no sooner than any of
// it is spent. The end is reckoned from before the question was sent, and a thousandth sooner. docs/redis.md has what
// that costs the client.
//
//	Take ----- the lease has enough: spend ------------------------> answered, nothing is asked
//	  |
//	  |------- no lease can hold the cost, or a peek --------------> asked alone
//	  |------- the client is refused, or asks for too little ------> asked alone
//	  |
//	  |------- no renewal is under way: start one -----------------> answered by it
//	  '------- wait for the renewal under way, then anew, or
//	           alone if it is late, lost or in vain
//
// The words that the code uses:
//
//   - A lease is units that have been taken, and what is known of the client that they are for: table.go, lease.go.
//   - A holder is a client under a rule.
//   - A renewal is a request for the next lease, under way in a goroutine of its own: renewal.go.
//   - Patience is the time that a request waits for a renewal that another caller started: patience.go.
//
// A request asked alone is a request of its own to the next link, which may know a refusal, or send the request
// together with others.
package lease
