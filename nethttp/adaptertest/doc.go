// Package adaptertest is the conformance suite of middleware that is built on package
// nethttp: what the adapters of this module pass, and what any other adapter can be held
// against. A test describes the adapter in an [Adapter] and runs the suite:
//
//	func TestMiddleware(t *testing.T) {
//		adaptertest.Run(t, adaptertest.Adapter{
//			Build:       build, // a server of the framework from an adaptertest.Tree
//			WithRefusal: withRefusal,
//			ErrorStatus: http.StatusInternalServerError,
//			RouteLabel:  "/api/items/:id",
//		})
//	}
//
//	func middleware(steps []adaptertest.Step) (all []mill.Middleware) {
//		for _, s := range steps {
//			if s.Spy == nil {
//				all = append(all, sashmill.Middleware(s.Limiter, s.Key, s.Options...))
//				continue
//			}
//			all = append(all, func(next mill.Handler) mill.Handler {
//				return func(c *mill.Context) error { s.Spy(); return next(c) }
//			})
//		}
//		return all
//	}
//
// docs/writing-an-adapter.md has this test whole. The suite counts in memory with a clock
// that stands still. It takes less than a second, and starts the few servers that it needs
// within the process.
//
// # What the subtests prove
//
// Of guards and their counts:
//
//	GroupAndRoute      the limits of a group and of a route inside it both hold; each is asked
//	                   once, and the response tells of the inner one
//	SharedRules        routes share a count if they have the same rule, and only then
//	ManyPaths          all paths of a route share one key and one label
//	All                what a second limiter refuses does not count under the first
//	CountedTwice       a guard that is mounted twice is told of
//	CountedOnce        and nothing else is, so the adapter calls Decider.Done after the handlers
//	Labels             the observer gets the labels of the Adapter, and none where no route matches
//	Allocations        a guard makes one allocation: the header fields
//	WrongArguments     the middleware panics as it is made, with an error that begins with "sash: "
//
// Of requests that are not limited:
//
//	Exclusions, ExcludedMethods, Prefixes
//	                   SkipPaths and Skip exclude what they say, touch no store, and cannot be tricked
//	Shadow, SkipKeys   a guard in the shadow refuses nothing, exempt clients are served; both are observed
//	CORS               a preflight counts unless it is skipped or answered outside the guard
//
// Of refusals:
//
//	Refusals           status, fields and body are as in nethttp; no handler and no later
//	                   middleware runs, wherever the guard is mounted
//	EndedRequest       a request whose context has ended gets a 503 without a body
//	FailOpen           a limiter that fails open serves without limit fields
//	CustomRefusals     what WithRefusal writes reaches the client as it is; if it writes nothing,
//	                   the default response does
//	RefusalErrors      an error of WithRefusal is answered by the framework, once
//	TimeoutHandlers    guards around and inside a TimeoutHandler leave the fields of the inner one
//
// Of servers and connections:
//
//	Streaming, WebSocket, ResponseController
//	                   the handler has all abilities of the server's ResponseWriter
//	HTTP10, KeepAlive, H2C
//	                   requests of HTTP/1.0 and HTTP/2 are limited, and connections go on after refusals
//	SlowBodies, KeepAliveAfterRefusedBody, RefusedBodyH2C
//	                   the body of a refused request holds its connection for a second at most
//	ReverseProxy       the limit fields of an upstream server do not stand beside the guard's
//
// Of options that follow the handler:
//
//	CountWhen          is asked once, about the status that the client gets, whatever the handler
//	                   does: it writes, copies, flushes, hijacks, panics, or does nothing
//	CountWhenElsewhere the same where no handler is reached, and with guards around each other
//	CountWhenRefused   is not asked about a request that its own guard refuses
//	ClientLeft         a request stays counted if its client has left and nothing was sent
//	Unreturned         a request stays counted if it cannot be given back
//	Login              of 200 attempts at once with wrong passwords 5 reach the handler, with right ones all
//	CostAfter          a request costs what its function says, also beyond the limit
//	DecisionInContext  the handler finds the decision of the innermost guard in its context
//	SettledByHandler   the handler settles its request, once
//	HandlerErrors      an error of a handler is answered as without a guard, once, and CountWhen
//	                   sees its status
//
// The tests of the first four parts run twice, but for All, Allocations and RefusalErrors: the second
// time, with Followed at the end of their names, each guard has a CountWhen that changes nothing.
//
// The suite cannot see what an adapter adds of its own, such as key functions that
// read the framework's context. It does not look at what the framework's own
// middleware, such as one that recovers, does around a guard.
package adaptertest
