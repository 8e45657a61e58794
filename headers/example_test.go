package headers_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
)

func ExampleXRateLimitFormat_UnixReset() {
	limit := core.PerMinute(100)
	h := http.Header{}
	headers.XRateLimit.UnixReset().WithWindow().Write(h, []core.Limit{limit}, core.Decision{
		Allowed: true, Limit: limit, Remaining: 42, ResetAfter: 17 * time.Second, At: time.Unix(1_800_000_000, 0),
	})
	for _, name := range []string{
		"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Window",
	} {
		fmt.Println(name+":", h.Get(name))
	}
	// Output:
	// X-RateLimit-Limit: 100
	// X-RateLimit-Remaining: 42
	// X-RateLimit-Reset: 1800000017
	// X-RateLimit-Window: 60
}
