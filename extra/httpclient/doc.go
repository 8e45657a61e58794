// Package httpclient limits the requests that a program sends. A request waits for its turn, and for the end of a pause
// that the server requested by a 429. docs/recipes.md shows more.
//
//	transport, err := httpclient.NewTransport(limiter, httpclient.ByHost, http.DefaultTransport)
//	...
//	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
package httpclient
