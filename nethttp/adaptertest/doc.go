// Package adaptertest is the conformance suite of middleware that is built on package nethttp. The adapters of this
// module pass it. A test describes the adapter in an [Adapter] and runs the suite. mill is an invented framework:
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
// The suite counts in memory with a clock that stands still. It takes less than a second, and starts the few servers
// that it needs within the process.
//
// # Writing an adapter
//
// An adapter gives a framework's own context, route patterns and errors to sash. A router whose middleware is
// func(http.Handler) http.Handler needs none: it takes [nethttp.Middleware], and [nethttp.WithLabel] names its routes.
// Where there is no ResponseWriter and Request, a program asks the limiter itself.
//
//  1. Start from tiny_test.go: a framework, its adapter and the test. The packages chi, gin, echo and echo5 are others.
//  2. Describe the framework in an [adapter.Framework]. The middleware calls the function of [adapter.New] with the
//     context and the next handler. [adapter.ByIP] is for a LimitByIP; [adapter.WithRefusal], [adapter.Skip] and
//     others make options that read the framework's context.
//  3. Prove it by [Run]. broken_test.go has an adapter that fails.
//
// An adapter decides no status, no field and not what counts: nethttp does, the same everywhere. Its label is never the
// path, which clients choose: metrics would grow without end. It sets no status before the function of adapter.New, and
// leaves the client's address to keyfuncs. The usual mistakes are to lose a handler's error, the Flush, Hijack or
// Unwrap of a writer, or the context of the request in Exchange.
//
// # What the subtests prove
//
// Of guards and their counts:
//
//	GroupAndRoute      the limits of a group and of a route inside it both hold; each is asked
//	                   once, and the response tells of the inner one
//	Labels             the observer gets the labels of the Adapter, and none where no route matches
//	WrongArguments     the middleware panics as it is made, with an error that begins with "sash: "
//	Allocations        a guard makes at most two allocations: the header fields
//	ResponseController handlers, and functions that refuse, have all abilities of the server's
//	                   ResponseWriter
//
// Of refusals:
//
//	Refusals           status, fields and body are as in nethttp; no handler and no later
//	                   middleware runs, wherever the guard is mounted
//	CustomRefusals     what WithRefusal writes reaches the client as it is; if it writes nothing,
//	                   the default response does
//	RefusalErrors      an error of WithRefusal is answered by the framework, once
//
// Of options that follow the handler:
//
//	CountWhen          is asked once, about the status that the client gets, whatever the handler
//	                   does: it writes, copies, flushes, hijacks, panics, or does nothing
//	CountWhenElsewhere the same where no handler is reached, and with guards around each other
//	ClientLeft         a request stays counted if its client leaves and nothing was sent; one whose
//	                   client has left before is answered with 499
//	CostAfter          a request costs what its function says, also beyond the limit
//	DecisionInContext  the handler finds the decision of the innermost guard in its context
//	RequestOutside     middleware outside sees the pattern and the path values that a handler has set
//	HandlerErrors      an error of a handler is answered as without a guard, once, and CountWhen
//	                   sees its status
//
// What holds for every guard, whatever it is mounted on, is proved by the tests of nethttp.
//
// The suite cannot see what an adapter adds of its own, such as MiddlewareBy, nor what counts where no route matches,
// nor what the framework's own middleware does around a guard. The test of package chi has such tests.
package adaptertest
