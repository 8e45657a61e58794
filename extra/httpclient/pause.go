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

// pause returns the wait that a response requests before the next request, from 0 to maxWait. at is its arrival. The
// fields that count depend on the status:
//
//   - 429: all of the fields below.
//   - 403: a Retry-After, and the reset of a quota of which 0 remain. Other 403s do not depend on time.
//   - 503: a Retry-After.
//
// The first kind of field in this list that is valid counts, and of one kind the longest wait:
//
//   - Retry-After, and each name that contains it, such as Retry-After-Ms.
//   - RateLimit of the IETF's drafts, `"default";r=0;t=30` or `limit=100, remaining=0, reset=30`.
//   - RateLimit-Reset.
//   - Each name with Limit and then Reset in it, such as X-RateLimit-Reset-Requests.
//
// A quota with units left, by the Remaining beside its reset, is not the reason for the refusal.
func pause(status int, h http.Header, at time.Time) (wait time.Duration) {
	statuses := []int{http.StatusTooManyRequests, http.StatusForbidden, http.StatusServiceUnavailable}
	if !slices.Contains(statuses, status) {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		at = date // by the server's clock, which may differ from this one
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

// maxWait is the longest wait that pause returns.
const maxWait = core.MaxWindow

// maxValue is the largest length in bytes of a value that is read.
const maxValue = 1 << 10

// The kinds of fields, in order of precedence.
const (
	retryAfter = iota
	rateLimit
	rateLimitReset
	otherReset
	noKind
)

// kindOf returns the kind of a field by its name in lower case.
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

// quota is a quota in a response: its resets, and its remaining units.
type quota struct{ reset, remaining []string }

// isEmpty reports whether no units of the quota remain, so that it is the reason for the refusal. A 429 need not give
// the remaining units, except with a small number in X-RateLimit-Reset, which may be the length of the window.
func (q quota) isEmpty(status int, name string) bool {
	if len(q.remaining) == 0 {
		small := len(q.reset) > 0 && len(q.reset[0]) < len("100000000") && strings.Trim(q.reset[0], "0123456789") == ""
		isWindow := small && strings.ReplaceAll(name, "-", "") == "xratelimitreset"
		return status == http.StatusTooManyRequests && !isWindow
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
		return ietfQuotas(values)
	}
	before, after, _ := strings.Cut(name, "reset")
	remaining := h.Values(before + "remaining" + after)
	if len(remaining) == 0 {
		remaining = h.Values(before + "remaining")
	}
	return []quota{{values, remaining}}
}

var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// ietfQuotas reads the field RateLimit: one quota of each `"name";r=0;t=30`, and one of all of
// `limit=100, remaining=0, reset=30`.
func ietfQuotas(values []string) []quota {
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

// unitOf returns the unit of a field in seconds.
func unitOf(name string) float64 {
	if strings.HasSuffix(name, "-ms") || strings.HasSuffix(name, "milliseconds") {
		return 1e-3
	}
	return 1
}

// longest returns the longest valid wait in values, each of which may be a list, and reports whether there is one.
func longest(values []string, unit float64, now time.Time) (wait time.Duration, ok bool) {
	parse := func(text string) bool {
		d, read := waitOf(strings.TrimSpace(text), unit, now)
		wait, ok = max(wait, d), ok || read
		return read
	}
	for _, value := range values {
		if len(value) > maxValue || parse(value) { // a date has a comma too
			continue
		}
		for part := range strings.SplitSeq(value, ",") {
			parse(part)
		}
	}
	return wait, ok
}

// waitOf parses a number, a duration such as 6m0s, or a date. The wait for a past time is 0. A negative number or
// duration is invalid.
func waitOf(text string, unit float64, now time.Time) (wait time.Duration, ok bool) {
	if strings.Trim(text, "0123456789.") == "" {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil && !math.IsInf(n, 1) {
			return 0, false
		}
		return waitOfNumber(n, unit, now), true
	}
	if d, err := time.ParseDuration(text); err == nil {
		return min(max(0, d), maxWait), d >= 0
	}
	if t, err := timeOf(text); err == nil {
		return min(max(0, t.Sub(now)), maxWait), true
	}
	return 0, false
}

// minUnixTime is the smallest Unix time, in 1985. It exceeds the seconds of every quota's reset.
const minUnixTime = 5e8

// waitOfNumber returns the wait that a number means: that many units, or until a Unix time in seconds, or in
// milliseconds, microseconds or nanoseconds if the wait is then within maxWait.
func waitOfNumber(n, unit float64, now time.Time) time.Duration {
	wait, most := n*unit, maxWait.Seconds()
	if wait >= minUnixTime {
		clock := float64(now.Unix()) + float64(now.Nanosecond())/1e9
		wait = n - clock
		for _, perSecond := range []float64{1e3, 1e6, 1e9} {
			if remaining := n/perSecond - clock; math.Abs(remaining) <= most {
				wait = remaining
			}
		}
	}
	return time.Duration(math.Round(min(max(0, wait), most) * float64(time.Second)))
}

// timeOf reads the dates of HTTP, also with UTC or an offset in the place of GMT, and the dates of ISO 8601.
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
