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
	fmt.Println(h)
	// Output:
	// map[X-Ratelimit-Limit:[100] X-Ratelimit-Remaining:[42] X-Ratelimit-Reset:[1800000017] X-Ratelimit-Window:[60]]
}
