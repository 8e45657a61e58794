package headers_test

import (
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
)

// FuzzRead reads fields of any content: what is read is in range, or is not understood.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"", "5", "-1", "9223372036854775807", "1772366400", `"a";r=1;t=2`, `"a\";r=1";r=2;t=-3`, "+5", " 5", "5\x00",
	} {
		f.Add(s, s, int64(1_772_366_400_000_000_001))
	}
	f.Fuzz(func(t *testing.T, first, second string, at int64) {
		h := http.Header{"X-Ratelimit-Remaining": {first}, "X-Ratelimit-Reset": {second}, "Ratelimit": {first}}
		for _, format := range []headers.Format{headers.Classic, headers.Classic.UnixReset(), headers.IETF} {
			remaining, reset, ok := format.Read(h, time.Unix(0, at))
			if ok && (remaining < 0 || reset < 0 || reset > core.MaxWindow) {
				t.Errorf("%T.Read(%q, %q) = %d, %v: out of range", format, first, second, remaining, reset)
			}
		}
	})
}

// FuzzWriteRead writes a decision in each format and reads the same numbers back, as
// exactly as the fields hold them.
func FuzzWriteRead(f *testing.F) {
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
		for _, format := range []headers.Format{headers.Classic, headers.Classic.UnixReset(), headers.IETF} {
			h := http.Header{}
			prepare(t, format, both)(h, d)
			gotRemaining, gotReset, ok := format.Read(h, d.At)
			want := d.ResetAfter
			if format == headers.IETF && !allowed {
				seconds, waits := headers.RetryAfter(d)
				want = min(core.MaxWindow, time.Duration(min(seconds, int64(core.MaxWindow/time.Second)))*time.Second)
				if !waits {
					want = 0
				}
			}
			// A field holds whole seconds and is rounded up. A reset as long as the longest window is cut to it.
			least, most := min(want, core.MaxWindow-time.Second), want+time.Second
			if !ok || gotRemaining != remaining || gotReset < least || gotReset > most {
				t.Errorf("%T of %v wrote %s and read %d, %v, %v", format, d, flat(h), gotRemaining, gotReset, ok)
			}
		}
	})
}
