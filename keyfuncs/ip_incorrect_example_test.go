package keyfuncs_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// INCORRECT: a client writes X-Forwarded-For itself, and the load balancer appends to it. So a client has a new name
// for each request, and no limit.
func ExampleIP_incorrectForwardedFor() {
	limiter := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(1)}}))
	key := func(r *http.Request) string {
		return r.Header.Get("X-Forwarded-For") // wrong: the client's words
	}
	// Right: key := keyfuncs.IP(keyfuncs.TrustProxies(netip.MustParsePrefix("10.0.0.0/8")))
	for _, forged := range []string{"192.0.2.1", "192.0.2.2"} {
		r := &http.Request{RemoteAddr: "10.0.0.1:4711", Header: http.Header{}}
		r.Header.Set("X-Forwarded-For", forged+", 198.51.100.7")
		fmt.Println(key(r), limiter.Allow(context.Background(), key(r)).Allowed)
	}
	// Output:
	// 192.0.2.1, 198.51.100.7 true
	// 192.0.2.2, 198.51.100.7 true
}
