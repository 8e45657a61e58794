// Package gather serves calls that wait at the same time together, as batches.
//
// It is for servers that answer one request of 32 parts nearly as fast as one request of a single part. No call waits
// for company: a call that finds a free slot is served alone at once. Calls that find all slots taken wait, and the
// next slot that becomes free takes up to [MaxBatch] of them along.
//
//	Do(ctx, deadline, request)
//	 |
//	 |-- a slot is free, and the time left allows it:  the caller calls Serve itself ("inline")
//	 |
//	 '-- else:  waiting calls --next--> worker --> Serve(batch) --> Call.Answer --> Do returns
//	                 |                                |
//	                 |                                '-- under way for too long: the batch is presumed lost, and its
//	                 |                                    slot is free for others; its callers go on waiting
//	                 |
//	                 '-- past its deadline: the timer ends the call, waiting or under way alike
//
// The words that the code uses:
//
//   - A call is one request of one caller, with the caller's own deadline.
//   - A batch is the calls that one run of Serve answers. It is under way from then until Serve returns.
//   - A slot is the permission to have one batch under way. There are 4 slots; 2 for many callers of a near server,
//     up to 16 for a crowd, and 3 while the server is slow: see slots.go.
//   - A worker is a goroutine that serves one batch after another. It is idle while it waits for calls.
//   - A batch is lost if it is under way for so long that its reply is not expected any more: see slots.go.
//   - The round trip is how long the newest reply took: see slots.go.
//
// One timer serves all calls, batches and workers: most calls are answered before it fires.
package gather
