package headers_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
)

func ExampleClassicFormat_UnixReset() {
	limit := core.PerMinute(100)
	write, err := headers.Classic.UnixReset().WithWindow().Prepare([]core.Limit{limit})
	if err != nil {
		panic(err)
	}
	h := http.Header{}
	write(h, core.Decision{
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

func ExampleFormat_ietf() {
	limits := []core.Limit{core.PerMinute(100).Named("burst"), core.PerDay(1000).Named("daily")}
	write, err := headers.IETF.Prepare(limits)
	if err != nil {
		panic(err)
	}
	h := http.Header{}
	write(h, core.Decision{Allowed: true, Limit: limits[0], Remaining: 50, ResetAfter: 30 * time.Second})
	fmt.Println("RateLimit-Policy:", h.Get("RateLimit-Policy"))
	fmt.Println("RateLimit:", h.Get("RateLimit"))
	// Output:
	// RateLimit-Policy: "burst";q=100;w=60, "daily";q=1000;w=86400
	// RateLimit: "burst";r=50;t=30
}

func ExampleRetryAfter() {
	fmt.Println(headers.RetryAfter(core.Decision{RetryAfter: 1200 * time.Millisecond}))
	fmt.Println(headers.RetryAfter(core.Decision{RetryAfter: core.Never}))
	// Output:
	// 2 true
	// 0 false
}
