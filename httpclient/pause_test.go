package httpclient

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TestPause: what servers write is read, and nothing else.
func TestPause(t *testing.T) {
	const none, most = time.Duration(-1), core.MaxWindow
	at := func(d time.Duration) string { return noon.Add(d).Format(http.TimeFormat) }
	for _, c := range []struct {
		fields []string
		want   time.Duration
	}{
		{nil, none},
		{[]string{"Retry-After", "7"}, 7 * time.Second},
		{[]string{"Retry-After", " 7\t"}, 7 * time.Second},
		{[]string{"Retry-After", "0"}, 0},
		{[]string{"Retry-After", "99999999999999999999999999"}, most},
		{[]string{"Retry-After", "-1"}, none},
		{[]string{"Retry-After", "soon"}, none},
		{[]string{"Retry-After", ""}, none},
		{[]string{"Retry-After", strings.Repeat("0", 2000) + "1"}, none},
		{[]string{"Retry-After", at(90 * time.Second)}, 90 * time.Second},
		{[]string{"Retry-After", at(-time.Hour)}, 0},
		{[]string{"Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"}, most},
		{[]string{"Retry-After", at(time.Hour + 90*time.Second), "Date", at(time.Hour)}, 90 * time.Second},
		{[]string{"Retry-After", at(90 * time.Second), "Date", "today"}, 90 * time.Second},
		{[]string{"Ratelimit-Reset", "50"}, 50 * time.Second},
		{[]string{"Ratelimit-Reset", "1772366400"}, most},
		{[]string{"X-Ratelimit-Reset", "50"}, none},
		{[]string{"X-Ratelimit-Remaining", "1", "X-Ratelimit-Reset", "50"}, none},
		{[]string{"X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "50"}, 50 * time.Second},
		{[]string{"X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "1772366430"}, 30 * time.Second},
	} {
		h := http.Header{}
		for i := 0; i < len(c.fields); i += 2 {
			h.Add(c.fields[i], c.fields[i+1])
		}
		wait, ok := pause(h, noon)
		if ok != (c.want != none) || ok && wait != c.want {
			t.Errorf("%.80q: %v, %v, want %v", c.fields, wait, ok, c.want)
		}
	}
}

// TestPauseOfFormats: what the formats of this package write about a refusal is understood.
func TestPauseOfFormats(t *testing.T) {
	limit := core.PerMinute(10)
	d := core.Decision{Limit: limit, ResetAfter: 40 * time.Second, RetryAfter: 40 * time.Second, At: noon}
	for _, f := range []headers.Format{headers.Classic, headers.Classic.UnixReset()} {
		write, err := f.Prepare([]core.Limit{limit})
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		write(h, d)
		if wait, ok := pause(h, noon); !ok || wait != 40*time.Second {
			t.Errorf("%v: %v, %v", h, wait, ok)
		}
	}
}

// FuzzPause reads fields of any content: what is read is in range.
func FuzzPause(f *testing.F) {
	for _, s := range []string{
		"", "5", "-1", "Fri, 31 Dec 9999 23:59:59 GMT", `"a";r=0;t=2`, `"a\";r=0;t=2`, "reset=3", "\x00",
	} {
		f.Add(s, s, int64(1_772_366_400_000_000_001))
	}
	f.Fuzz(func(t *testing.T, first, second string, at int64) {
		for _, h := range []http.Header{
			{"Retry-After": {first}, "Date": {second}},
			{"Ratelimit-Reset": {first}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {second}, "Date": {first}},
		} {
			if wait, ok := pause(h, time.Unix(0, at)); wait < 0 || wait > core.MaxWindow || !ok && wait != 0 {
				t.Errorf("%q at %d: %v, %v", h, at, wait, ok)
			}
		}
	})
}
