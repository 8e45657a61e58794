// Package sashgrpc limits the calls that a gRPC server gets and the calls that a program makes. Package core
// has the limits, and package keyfuncs the names of clients.
//
//	api := core.Must(core.New(core.Config{
//		Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerMinute(100)}, // for each client
//	}))
//	// Logins have a count of their own. While the store fails, they are refused.
//	login := core.Must(api.Rule("login", core.Per(5, 15*time.Minute))).WithPolicy(core.FailClosed)
//
//	key := sashgrpc.Key(keyfuncs.RemoteIP) // any function of package keyfuncs will do
//	health := sashgrpc.SkipMethods("/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch")
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(
//			sashgrpc.UnaryServer(api, key, health),
//			sashgrpc.UnaryServer(login, key, sashgrpc.ForMethod("/auth.Auth/Login")),
//		),
//		grpc.ChainStreamInterceptor(sashgrpc.StreamServer(api, key, health)),
//	)
//
// # What a client sees
//
// A refused call never reaches its handler. Its status has an ErrorInfo of the domain github.com/sashlimit/sash with
// one of these reasons. Neither holds input of the client or the text of an error.
//
//	RESOURCE_EXHAUSTED  RATE_LIMIT_EXCEEDED       over the limit, whose name is in the metadata
//	UNAVAILABLE         RATE_LIMITER_UNAVAILABLE  no store, core.FailClosed
//	INVALID_ARGUMENT    CLIENT_UNIDENTIFIED       the client has no name: the key function's error matches
//	                                              keyfuncs.ErrNoKey or ErrBadRequest, or the key is empty
//	UNAUTHENTICATED     UNAUTHENTICATED           ... or a keyfuncs.UnauthenticatedError: of an API key that is
//	                                              missing or was never issued
//	INTERNAL            INTERNAL_ERROR            the key function failed, or WithCost gave a negative cost
//	CANCELLED, DEADLINE_EXCEEDED                  the call's context has ended; without an ErrorInfo
//
// The first two have a RetryInfo too, and the trailer grpc-retry-pushback-ms, by which the retries of a client's
// service config go. An UNAVAILABLE draws a time from 5 to 10 s. A call that can never pass has no RetryInfo, and a
// pushback of -1. A [keyfuncs.RefusedError] of the key function is answered as its decision.
//
// A guard of package nethttp decides a call, so policies, events and the words in logs and metrics are as for HTTP. An
// Event has the method as its Label if it is one that the server has registered.
//
// # Clients without an address
//
// Over a unix socket and over bufconn keyfuncs.RemoteIP names no client, and each call is INVALID_ARGUMENT. Behind a
// proxy on the same host take keyfuncs.IP(keyfuncs.TrustUnixSocket()): it believes what any process writes into
// x-forwarded-for that may open the socket, and calls without it share a count. Over bufconn, and wherever the callers
// are processes of your own, name them by their metadata, as keyfuncs.Header does, or count them together:
// keyfuncs.First(keyfuncs.RemoteIP, keyfuncs.AllClients).
//
// The package is a module of its own, so that gRPC does not become a dependency of sash.
package sashgrpc
