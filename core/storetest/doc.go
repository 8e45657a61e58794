// Package storetest is the conformance suite of [core.Store]. The stores of this module pass it, and a store of another
// module can be held against it. [Fixed] and [Wrap] are stores for the tests of programs, as in docs/recipes.md: one
// that always gives one answer, and one that fails when a test says so.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) core.Store { return mystore.New() })
//	}
//
// The suite asks the store through a [core.Limiter] and reads its clock from [core.Decision.At], so it needs no control
// over time: every answer is compared with what the arithmetic says of that instant. It cannot see a slow server, the
// memory of a flood, or several processes.
//
// # Writing a store
//
// Start from the right, slow store in example_test.go, which counts by core/internal/model. [core.Store] and
// [core.Ledger] are the contract. These parts are hard:
//
//   - Bind is called while a program starts: it must not talk to a server.
//   - Take reads the store's clock once, in whole microseconds that do not run backwards. It checks all limits at that
//     instant, and charges all or none: by a lock, a transaction or a script.
//   - A refusal leaves no trace. Its RetryAfter is exact to the microsecond; [core.Never] for a cost above the limit.
//   - The answer is about the limit that binds: the refusal with the longest RetryAfter; else the least Remaining, then
//     the longest ResetAfter.
//   - A cost of 2^63 - 1 overflows a sum, and an entry of no units may stay after a Return. Histories finds both.
//   - Everything is bounded: keys, which come from the network, requests that wait, and the memory of each client.
//
// # A store that waits
//
// [core.Ask] has a timeout, and a context of it. Where Decision.Err is set, the policy decides.
//
//	ctx, cancel := ask.Context(ctx)
//	defer cancel()
//	d := send(ctx, ask)
//	if d.Err != nil && ctx.Err() != nil {
//		d.Err = core.AtStage(core.StageReply, context.Cause(ctx)) // matches core.ErrTimeout
//	}
//	return d
//
// A request is sent once: one whose reply is lost may have been counted. [core.AtStage] says how far the request came.
// An error that matches [core.ErrUnavailable] is for a store that has been failing, where the request did not wait; a
// method Hint() string of an error says what to do. Decision.Source is [core.SourceCached] or [core.SourceLeased]
// where the store did not count just then. A Ledger that waits for a lock alone has [core.Immediate], so that it needs
// no part of Config.Timeout as a fallback.
package storetest
