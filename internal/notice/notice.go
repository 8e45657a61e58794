// Package notice has the codes of this module's notices. docs/monitoring.md has a paragraph for each.
package notice

const (
	DoubleCount    = "double-count"    // one request was counted twice by the same rule
	UntrustedProxy = "untrusted-proxy" // most requests come through one proxy, and it names the client
	H2C            = "h2c"             // a connection may go on as HTTP/2 behind one admitted request
	LargeLog       = "large-log"       // a SlidingLog may take more than 1 MB for each client
	EvictionPolicy = "eviction-policy" // the store's server deletes counts when it is full
	FirstKeyProxy  = "first-key-proxy" // a proxy sends a script to the server of its first key
	ReturnFailed   = "return-failed"   // units of a request that another limiter refused stay counted
	RegionSilent   = "region-silent"   // a region has not answered for seconds
	RegionShares   = "region-shares"   // regions decide by their shares alone, or a request exceeds the largest share
	RegionNames    = "region-names"    // processes were given different regions or modes
)

// Codes lists all codes.
var Codes = []string{
	DoubleCount, UntrustedProxy, H2C, LargeLog, EvictionPolicy, FirstKeyProxy, ReturnFailed, RegionSilent, RegionShares,
	RegionNames,
}
