package httpclient

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sashlimit/sash/core"
)

// pause returns how long a response of a server asks its client to wait before the next
// request, and reports whether it does so in a way that can be read. It is for a 429, or
// a 503 with Retry-After. at is the time at which the response came. The wait is from 0 to
// longestPause. It is that of the first of these that is there and understood:
//
//   - Retry-After: whole seconds, or an HTTP date. A date is reckoned from the Date of the
//     response if it has one, so that the clocks need not agree.
//   - RateLimit-Reset: whole seconds.
//   - X-RateLimit-Reset beside an X-RateLimit-Remaining of 0: up to longestPause it is
//     seconds to wait, and else a Unix time. Without a Remaining of 0 it is not about this
//     refusal.
func pause(h http.Header, at time.Time) (wait time.Duration, ok bool) {
	clock := at
	if date, ok := first(h, "Date"); ok {
		if t, err := http.ParseTime(date); err == nil {
			clock = t
		}
	}
	if value, found := first(h, "Retry-After"); found {
		if wait, ok = seconds(value); ok {
			return wait, true
		}
		if t, err := http.ParseTime(value); err == nil {
			return min(max(0, t.Sub(clock)), longestPause), true
		}
	}
	if value, found := first(h, "Ratelimit-Reset"); found {
		if wait, ok = seconds(value); ok {
			return wait, true
		}
	}
	if remaining, found := first(h, "X-Ratelimit-Remaining"); !found || strings.Trim(remaining, "0") != "" {
		return 0, false
	}
	value, _ := first(h, "X-Ratelimit-Reset")
	reset, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil || reset < 0:
		return 0, false
	case reset > maxReset:
		return min(max(0, time.Unix(min(reset, 1<<40), 0).Sub(clock)), longestPause), true
	}
	return time.Duration(reset) * time.Second, true
}

// longestPause is the longest wait that pause returns.
const longestPause = core.MaxWindow

// maxReset is longestPause in seconds. No quota takes longer to come back, and no clock is that
// close to 1970, so a larger X-RateLimit-Reset is a Unix time.
const maxReset = int64(longestPause / time.Second)

// maxValue is the length in bytes of the longest value that is read.
const maxValue = 1 << 10

// first returns the first value of a field, given by its canonical name, and reports
// whether there is one that may be read.
func first(h http.Header, name string) (string, bool) {
	if values := h[name]; len(values) > 0 && len(values[0]) <= maxValue {
		return values[0], true
	}
	return "", false
}

// seconds reads whole seconds. More than maxReset are maxReset.
func seconds(value string) (time.Duration, bool) {
	value = strings.Trim(value, " \t")
	if value == "" || strings.Trim(value, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n > maxReset {
		n = maxReset // an error can only mean that it is out of range
	}
	return time.Duration(n) * time.Second, true
}
