// Package httpclient limits the requests that a program sends. A request waits for its turn,
// and a server that asks for a pause by a 429 gets it.
//
//	transport, err := httpclient.NewTransport(limiter, httpclient.ByHost, http.DefaultTransport)
//	...
//	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
package httpclient
