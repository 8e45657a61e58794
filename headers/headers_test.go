package headers_test

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
)

var (
	burst = core.PerMinute(100).Named("burst")
	daily = core.PerDay(1000).Named("daily")
	both  = []core.Limit{burst, daily}
	noon  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

func TestFormats(t *testing.T) {
	long := core.Per(core.MaxCounterRequests, core.MaxWindow).Using(core.SlidingCounter).Named(strings.Repeat("n", 64))
	admitted := core.Decision{Allowed: true, Limit: burst, Remaining: 42, ResetAfter: 16*time.Second + 1, At: noon}
	refused := core.Decision{Limit: daily, ResetAfter: 9 * time.Second, RetryAfter: 29*time.Second + 1, At: noon}
	never := core.Decision{Limit: burst, Remaining: 7, ResetAfter: time.Second, RetryAfter: core.Never, At: noon}
	largest := core.Decision{Allowed: true, Limit: long, Remaining: math.MaxInt64, ResetAfter: core.MaxWindow, At: noon}
	bucket := core.RateAndBurst(1, time.Second, 200).Named("calls")
	renamed := headers.XRateLimit.WithNames("x-quota-limit", "X-Quota-Remaining", "X-Quota-Reset", "X-Quota-Window")

	for _, c := range []struct {
		name   string
		format headers.Format
		limits []core.Limit
		d      core.Decision
		want   string
	}{
		{"X-RateLimit", headers.XRateLimit, both, admitted,
			"X-Ratelimit-Limit:[100] X-Ratelimit-Remaining:[42] X-Ratelimit-Reset:[17]"},
		{"X-RateLimit large", headers.XRateLimit, []core.Limit{long}, largest, "X-Ratelimit-Limit:[1099511627776] " +
			"X-Ratelimit-Remaining:[9223372036854775807] X-Ratelimit-Reset:[31622400]"},
		{"X-RateLimit, share of a fallback", headers.XRateLimit, both,
			core.Decision{Allowed: true, Limit: core.PerMinute(25).Named("burst"), Remaining: 3},
			"X-Ratelimit-Limit:[25] X-Ratelimit-Remaining:[3] X-Ratelimit-Reset:[0]"},
		{"unix rounds up", headers.XRateLimit.UnixReset(), both, admitted,
			"X-Ratelimit-Limit:[100] X-Ratelimit-Remaining:[42] X-Ratelimit-Reset:[1772366417]"},
		{"window", headers.XRateLimit.WithWindow(), both, admitted,
			"X-Ratelimit-Limit:[100] X-Ratelimit-Remaining:[42] X-Ratelimit-Reset:[17] X-Ratelimit-Window:[60]"},
		{"window of 1.5 s", headers.XRateLimit.WithWindow(), nil,
			core.Decision{Allowed: true, Limit: core.Per(3, 1500*time.Millisecond)},
			"X-Ratelimit-Limit:[3] X-Ratelimit-Remaining:[0] X-Ratelimit-Reset:[0]"},
		{"renamed", renamed, both, admitted,
			"X-Quota-Limit:[100] X-Quota-Remaining:[42] X-Quota-Reset:[17] X-Quota-Window:[60]"},
		{"ietf", headers.IETF, both, admitted,
			`Ratelimit:["burst";r=42;t=17] Ratelimit-Policy:["burst";q=100;w=60, "daily";q=1000;w=86400]`},
		{"ietf of a bucket: burst, and seconds in which it refills", headers.IETF, []core.Limit{bucket},
			core.Decision{Allowed: true, Limit: bucket, Remaining: 180, ResetAfter: 20 * time.Second},
			`Ratelimit:["calls";r=180;t=20] Ratelimit-Policy:["calls";q=200;w=200]`},
		{"ietf refused: t is Retry-After", headers.IETF, both, refused,
			`Ratelimit:["daily";r=0;t=30] Ratelimit-Policy:["burst";q=100;w=60, "daily";q=1000;w=86400]`},
		{"ietf never", headers.IETF, []core.Limit{burst}, never,
			`Ratelimit:["burst";r=7] Ratelimit-Policy:["burst";q=100;w=60]`},
		{"ietf, windows without a true w", headers.IETF,
			[]core.Limit{core.Per(1, time.Millisecond).Named("a"), core.Per(2, 1500*time.Millisecond).Named("b"),
				core.PerSecond(3).Named("c")},
			core.Decision{Allowed: true, Limit: burst},
			`Ratelimit:["burst";r=0;t=0] Ratelimit-Policy:["a";q=1, "b";q=2, "c";q=3;w=1]`},
		{"ietf large", headers.IETF, []core.Limit{long}, largest, fmt.Sprintf(`Ratelimit:["%s";r=9223372036854775807;`+
			`t=31622400] Ratelimit-Policy:["%[1]s";q=1099511627776;w=31622400]`, long.Name)},
	} {
		h := http.Header{}
		c.format.Write(h, c.limits, c.d)
		if got := fmt.Sprint(h); got != "map["+c.want+"]" {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
		for name := range h {
			if name != http.CanonicalHeaderKey(name) || !slices.Contains(c.format.Names(), name) {
				t.Errorf("%s: %q is not in Names in the form that Get finds", c.name, name)
			}
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		d    core.Decision
		want int64
		ok   bool
	}{
		{core.Decision{Allowed: true}, 0, false},
		{core.Decision{Allowed: true, RetryAfter: time.Second}, 0, false},
		{core.Decision{RetryAfter: core.Never}, 0, false},
		{core.Decision{RetryAfter: 0}, 1, true},
		{core.Decision{RetryAfter: time.Second + time.Nanosecond}, 2, true},
		{core.Decision{RetryAfter: core.MaxWindow}, 31622400, true},
		{core.Decision{RetryAfter: core.Never - 1}, 9223372037, true},
	} {
		if got, ok := headers.RetryAfter(c.d); got != c.want || ok != c.ok {
			t.Errorf("RetryAfter(%v) = %d, %v; want %d, %v", c.d.RetryAfter, got, ok, c.want, c.ok)
		}
	}
}
