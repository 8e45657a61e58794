// Package batch serves calls that wait at the same time together.
//
// It is for servers that answer one request of 32 parts nearly as fast as one request of a single part. No call waits
// for others: a call that finds a free slot is served at once. Calls that find no free slot wait, and the next free
// slot takes up to [MaxBatch] of them.
//
//	Do(ctx, deadline, request)
//	 |
//	 |-- a slot is free, and the time left allows it:  the caller runs Serve itself ("inline")
//	 |
//	 '-- else:  waiting calls --> worker --> Serve(batch) --> Call.Answer --> Do returns
//	                 |                          |
//	                 |                          '-- in flight for too long: the batch is presumed lost, and its
//	                 |                              slot is free; its callers go on waiting
//	                 |
//	                 '-- past its deadline: the timer ends the call, waiting or in flight
//
// Terms:
//
//   - A call is one request of one caller, with the caller's deadline.
//   - A batch is the calls that one run of Serve answers. It is in flight until Serve returns.
//   - A slot is the permission to have one batch in flight. Most of the time there are 4; slots.go has the rules.
//   - A worker is a goroutine that serves one batch after another. It is idle while no calls wait.
//   - A lost batch is one whose reply is no longer expected.
//   - The round trip is how long the newest reply took.
//
// One timer serves all calls, batches and workers: most calls are answered before it fires.
package batch
