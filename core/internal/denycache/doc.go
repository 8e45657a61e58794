// Package denycache provides a [core.Ledger] that caches the refusals of another ledger while they are certain to last,
// for at most a second at a time. A flood from a refused client then costs the store one request a second from this
// process.
//
// A refusal with nothing remaining is exact until the oldest counted unit leaves; for a counter until the request may
// pass or a fixed window ends; for a bucket until the request may pass. Only a reset, returned units, and an admission
// by other limits on the same counts can change it sooner. Its end is computed from the time before the request was
// sent, so it never lasts too long. Other refusals are not cached: if units remain, a smaller request changes the
// numbers. The refusal of a request with its own limits is cached for requests with the same limits.
//
// After a second one request checks the refusal at the store, and the cache refuses the others meanwhile: a reset by
// another process takes effect within a second. If the caller of that request leaves before the reply, another request
// checks soon after.
//
//	Lookup     |  returns the cached refusal, or tells one caller a second to check it at the store
//	Record     |  caches a refusal, or drops the cached one
//	Abandon    |  after a caller left without a reply: lets another caller check
//	Invalidate |  drops a client's refusals, after a return, a charge, a reset or an admission by other limits
//
// A full shard evicts an arbitrary refusal. An attacker with many refused clients can evict the refusals of others,
// each of which then costs the store one more request. The memory is bounded, some 10 MB, and no eviction admits a
// request.
package denycache
