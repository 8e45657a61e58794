// Package denycache is a link in front of any [core.Ledger]. It remembers refusals for as long as they are certain to
// last, and for at most a second at a time. So a flood on a client that is refused anyway costs the store one question
// a second from this process.
//
// A refusal with nothing remaining holds, number for number, until the oldest counted unit leaves or, for a counter,
// until the request may pass or a fixed window ends, as for a bucket until it may pass. Only a reset, units that are
// given back, and an admission by other limits on the same counts can change it sooner. Its end is reckoned from before
// the question was sent, so it never lasts a moment too long. No other refusal is remembered: where something remains,
// the next smaller request changes the numbers. One by limits of a request is for requests with the same limits.
//
// After a second one request asks the store again, and the others are still refused from memory: so a reset by
// another process is seen within a second. If the caller of that request leaves before the reply, another request
// asks soon after.
//
//	Lookup     |  is there a refusal, or must this caller ask whether it still holds, if it can?
//	Note       |  an answer has come: remember it, or forget what was refused before
//	Unanswered |  the caller has left without an answer: let another caller ask
//	Changed    |  the client has been given units back, charged, reset or admitted by other limits: its refusals end
//
// A full shard gives up an arbitrary refusal for a new one. An attacker with many refused clients can so push out the
// refusals of others, each of which then costs the store a question more. The memory is bounded, some 10 MB, and no
// request is admitted by that.
package denycache
