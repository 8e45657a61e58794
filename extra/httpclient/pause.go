package httpclient

import (
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sashlimit/sash/core"
)

// pause returns the time that a response asks to wait before the next request, from 0 to longestPause. at is the
// time at which it came. What is read depends on the status:
//
//   - 429: all of the fields below.
//   - 403: a Retry-After, and the reset of a quota of which 0 remain. Any other 403 is no matter of time.
//   - 503: a Retry-After.
//
// The fields are these. The first kind that can be read counts, and of one kind the longest wait:
//
//   - Retry-After, and all that has it in its name, such as Retry-After-Ms.
//   - RateLimit of the IETF's drafts, `"default";r=0;t=30` or `limit=100, remaining=0, reset=30`.
//   - RateLimit-Reset.
//   - All that has Limit and then Reset in its name, such as X-RateLimit-Reset-Requests.
//
// A quota that has some left, by the Remaining beside its reset, is not why a request was refused.
func pause(status int, h http.Header, at time.Time) (wait time.Duration) {
	if !slices.Contains([]int{http.StatusTooManyRequests, http.StatusForbidden, http.StatusServiceUnavailable}, status) {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		at = date // times are reckoned from the server's clock, so that the clocks need not agree
	}
	best := noKind
	for name, values := range h {
		name = strings.ToLower(name)
		kind := kindOf(name)
		if kind > best || kind == noKind || kind != retryAfter && status == http.StatusServiceUnavailable {
			continue
		}
		for _, q := range quotasOf(kind, name, values, h) {
			if kind != retryAfter && !q.isEmpty(status, name) {
				continue
			}
			if d, ok := longest(q.reset, unitOf(name), at); ok && (kind < best || d > wait) {
				best, wait = kind, d
			}
		}
	}
	return wait
}

// longestPause is the longest wait that pause returns.
const longestPause = core.MaxWindow

// maxValue is the length in bytes of the longest value that is read.
const maxValue = 1 << 10

// The kinds of fields, in the order in which they count.
const (
	retryAfter = iota
	rateLimit
	rateLimitReset
	otherReset
	noKind
)

// kindOf returns the kind of the field with a name, which is in lower case.
func kindOf(name string) int {
	before, _, reset := strings.Cut(name, "reset")
	switch {
	case strings.Contains(name, "retry-after"):
		return retryAfter
	case name == "ratelimit" || strings.HasSuffix(name, "-ratelimit"):
		return rateLimit
	case name == "ratelimit-reset":
		return rateLimitReset
	case reset && strings.Contains(before, "limit"):
		return otherReset
	}
	return noKind
}

// quota is one quota as a response tells it: when it comes back, and how much remains.
type quota struct{ reset, remaining []string }

// isEmpty reports whether nothing remains of the quota, so that a request was refused for it. A 429 need not say what
// remains, but for a small number in X-RateLimit-Reset: that may be anything, such as the length of the window.
func (q quota) isEmpty(status int, name string) bool {
	if len(q.remaining) == 0 {
		small := len(q.reset) > 0 && len(q.reset[0]) < len("100000000") && strings.Trim(q.reset[0], "0123456789") == ""
		return status == http.StatusTooManyRequests && !(small && strings.ReplaceAll(name, "-", "") == "xratelimitreset")
	}
	number, _, _ := strings.Cut(q.remaining[0], ";") // Docker Hub writes 0;w=21600
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	return err == nil && n <= 0
}

// quotasOf reads the quotas of a field. Beside X-RateLimit-Reset-Requests is X-RateLimit-Remaining-Requests, and beside
// X-RateLimit-Reset-After is X-RateLimit-Remaining.
func quotasOf(kind int, name string, values []string, h http.Header) []quota {
	switch kind {
	case retryAfter:
		return []quota{{reset: values}}
	case rateLimit:
		return draftQuotas(values)
	}
	before, after, _ := strings.Cut(name, "reset")
	remaining := h.Values(before + "remaining" + after)
	if len(remaining) == 0 {
		remaining = h.Values(before + "remaining")
	}
	return []quota{{values, remaining}}
}

var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// draftQuotas reads the field RateLimit: one quota of each `"name";r=0;t=30`, and one of all of
// `limit=100, remaining=0, reset=30`.
func draftQuotas(values []string) []quota {
	all := []quota{{}}
	for _, value := range values {
		if len(value) > maxValue {
			continue
		}
		for member := range strings.SplitSeq(quoted.ReplaceAllString(value, ""), ",") {
			params := strings.Split(member, ";")
			if !strings.Contains(params[0], "=") {
				all = append(all, quota{})
			}
			q := &all[len(all)-1]
			for _, param := range params {
				switch key, number, _ := strings.Cut(strings.TrimSpace(param), "="); key {
				case "t", "reset":
					q.reset = append(q.reset, number)
				case "r", "remaining":
					q.remaining = append(q.remaining, number)
				}
			}
		}
	}
	return all
}

// unitOf returns the seconds for which 1 stands in a field.
func unitOf(name string) float64 {
	if strings.HasSuffix(name, "-ms") || strings.HasSuffix(name, "milliseconds") {
		return 1e-3
	}
	return 1
}

// longest returns the longest wait that can be read in values, each of which may be a list, and whether there is one.
func longest(values []string, unit float64, now time.Time) (wait time.Duration, ok bool) {
	note := func(text string) bool {
		d, read := waitOf(strings.TrimSpace(text), unit, now)
		wait, ok = max(wait, d), ok || read
		return read
	}
	for _, value := range values {
		if len(value) > maxValue || note(value) { // a date has a comma too
			continue
		}
		for part := range strings.SplitSeq(value, ",") {
			note(part)
		}
	}
	return wait, ok
}

// waitOf reads a number, a duration such as 6m0s, or a date. A time that is over is 0. A negative number or duration
// cannot be read.
func waitOf(text string, unit float64, now time.Time) (wait time.Duration, ok bool) {
	if strings.Trim(text, "0123456789.") == "" {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil && !math.IsInf(n, 1) {
			return 0, false
		}
		return waitOfNumber(n, unit, now), true
	}
	if d, err := time.ParseDuration(text); err == nil {
		return min(max(0, d), longestPause), d >= 0
	}
	if t, err := timeOf(text); err == nil {
		return min(max(0, t.Sub(now)), longestPause), true
	}
	return 0, false
}

// leastTime is the least Unix time, one of 1985. No quota takes that many seconds to come back, and no clock is that
// slow.
const leastTime = 5e8

// waitOfNumber returns the wait that a number means: so many units, or until a Unix time, in seconds, or in
// milliseconds, microseconds or nanoseconds if that is within longestPause from now.
func waitOfNumber(n, unit float64, now time.Time) time.Duration {
	wait, most := n*unit, longestPause.Seconds()
	if wait >= leastTime {
		clock := float64(now.Unix()) + float64(now.Nanosecond())/1e9
		wait = n - clock
		for _, perSecond := range []float64{1e3, 1e6, 1e9} {
			if left := n/perSecond - clock; math.Abs(left) <= most {
				wait = left
			}
		}
	}
	return time.Duration(math.Round(min(max(0, wait), most) * float64(time.Second)))
}

// timeOf reads the dates of HTTP, also with UTC or an offset in the place of GMT, and those of ISO 8601.
func timeOf(text string) (time.Time, error) {
	t, err := http.ParseTime(strings.Replace(text, " UTC", " GMT", 1))
	for _, layout := range []string{
		time.RFC1123Z, time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05",
		"2006-01-02 15:04:05 UTC", "2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05",
	} {
		if err != nil {
			t, err = time.Parse(layout, text)
		}
	}
	return t, err
}
