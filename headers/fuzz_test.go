package headers_test

import (
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
)

// FuzzWrite writes any decision in each format: the numbers are its own, and seconds are
// rounded up.
func FuzzWrite(f *testing.F) {
	f.Add(int64(42), int64(17*time.Second), int64(0), int64(1_772_366_400_000_000), true)
	f.Add(int64(0), int64(1), int64(time.Second+1), int64(1_772_366_400_000_001), false)
	const most, longest = int64(core.MaxCounterRequests), int64(core.MaxWindow)
	f.Add(most, longest, longest, int64(1_900_000_000_999_999), false)
	f.Add(int64(7), int64(time.Minute), int64(math.MaxInt64), int64(1_772_366_400_000_000), false)
	f.Fuzz(func(t *testing.T, remaining, reset, retry, at int64, allowed bool) {
		const year2020, year2200 = 1_577_836_800_000_000, 7_258_118_400_000_000
		if remaining < 0 || reset < 0 || reset > int64(core.MaxWindow) || retry <= 0 || at < year2020 || at > year2200 {
			return
		}
		d := core.Decision{
			Allowed: allowed, Limit: burst, Remaining: remaining, ResetAfter: time.Duration(reset), At: time.UnixMicro(at),
		}
		if !allowed {
			d.RetryAfter = time.Duration(retry)
		}
		ceil := func(microseconds int64) int64 { return (microseconds + 999_999) / 1_000_000 }
		wait := ceil((reset + 999) / 1000)
		again := wait
		if !allowed {
			again = ceil((retry-1)/1000 + 1)
		}
		ietf := fmt.Sprintf(`"burst";r=%d;t=%d`, remaining, again)
		if !allowed && d.RetryAfter == core.Never {
			ietf = fmt.Sprintf(`"burst";r=%d`, remaining)
		}
		for _, c := range []struct {
			format headers.Format
			want   string
		}{
			{headers.Classic, fmt.Sprint(remaining, " ", wait)},
			{headers.Classic.UnixReset(), fmt.Sprint(remaining, " ", (at*1000+reset+999_999_999)/1_000_000_000)},
			{headers.IETF, ietf},
		} {
			h := http.Header{}
			c.format.Write(h, both, d)
			got := h.Get("RateLimit")
			if got == "" {
				got = h.Get("X-RateLimit-Remaining") + " " + h.Get("X-RateLimit-Reset")
			}
			if got != c.want {
				t.Errorf("%T of %v: got %s, want %s", c.format, d, got, c.want)
			}
		}
	})
}
