// Package lease provides a [core.Ledger] that takes units of a busy client's limit ahead of time and spends them
// without asking the next ledger, which must honor Override.Delay.
//
// No window of a limit holds too many units: a lease is counted at its end, all of it at once, so no unit is counted
// earlier than it is spent. The end of a lease is computed from the time before the request was sent, less a
// thousandth. docs/redis.md describes the costs for the client.
//
//	Take ----- the lease has enough: spend ------------------------> answered locally
//	  |
//	  |------- the cost exceeds any lease, or is a peek ------------> next ledger
//	  |------- the client is refused, or is not busy enough --------> next ledger
//	  |
//	  |------- no renewal is in flight: start one ------------------> answered by the renewal
//	  '------- wait for the renewal in flight, then start over; or
//	           next ledger if the renewal is late, lost or fruitless
//
// Terms:
//
//   - A lease is the units taken ahead for a client, with the client's recent rate: table.go, lease.go.
//   - A holder is a client under a rule.
//   - A renewal is a request for the next lease, in flight in its own goroutine: renewal.go.
//   - maxWait limits the time that a request waits for another caller's renewal: wait.go.
package lease
