package headers

import (
	"net/http"
	"strconv"
	"time"

	"github.com/sashlimit/sash/core"
)

// XRateLimit is the format that most clients know. It has the limit that binds:
//
//	X-RateLimit-Limit: 100      requests per window
//	X-RateLimit-Remaining: 42   units left
//	X-RateLimit-Reset: 17       seconds until quota comes back, rounded up
//
// Go writes the names as X-Ratelimit-Limit and so on; names of fields are not case-sensitive.
var XRateLimit = XRateLimitFormat{
	limit: "X-Ratelimit-Limit", remaining: "X-Ratelimit-Remaining", reset: "X-Ratelimit-Reset",
}

// XRateLimitFormat is the type of [XRateLimit]. Its methods return variants. A guard refuses invalid names of fields,
// such as those of the zero value.
type XRateLimitFormat struct {
	limit, remaining, reset string
	window                  string // empty for none
	unix                    bool   // whether Reset is a Unix time
}

// UnixReset returns the format with Reset as a Unix time in whole seconds, rounded up, by the store's clock. GitHub
// writes it so.
func (f XRateLimitFormat) UnixReset() XRateLimitFormat { f.unix = true; return f }

// WithWindow returns the format with a fourth field, X-RateLimit-Window: the window of the limit that binds, in
// seconds. A window that is not a whole number of seconds has no such field.
func (f XRateLimitFormat) WithWindow() XRateLimitFormat { f.window = "X-Ratelimit-Window"; return f }

// WithNames returns the format with other names of its fields. An empty window removes that field; the other names are
// required.
func (f XRateLimitFormat) WithNames(limit, remaining, reset, window string) XRateLimitFormat {
	f.limit = http.CanonicalHeaderKey(limit)
	f.remaining = http.CanonicalHeaderKey(remaining)
	f.reset = http.CanonicalHeaderKey(reset)
	f.window = http.CanonicalHeaderKey(window)
	return f
}

// Names implements [Format].
func (f XRateLimitFormat) Names() []string {
	names := []string{f.limit, f.remaining, f.reset}
	if f.window != "" {
		names = append(names, f.window)
	}
	return names
}

// Write implements [Format].
func (f XRateLimitFormat) Write(h http.Header, _ []core.Limit, d core.Decision) {
	var digits [64]byte
	text := strconv.AppendInt(digits[:0], d.Limit.Requests, 10)
	first := len(text)
	text = strconv.AppendInt(text, d.Remaining, 10)
	second := len(text)
	all := string(strconv.AppendInt(text, f.resetOf(&d), 10)) // one allocation for all
	values := []string{all[:first], all[first:second], all[second:]}
	h[f.limit], h[f.remaining], h[f.reset] = values[0:1:1], values[1:2:2], values[2:3:3]
	if seconds, ok := wholeSeconds(d.Limit.Window); ok && f.window != "" {
		h[f.window] = []string{strconv.FormatInt(seconds, 10)}
	}
}

// resetOf returns the value of the field Reset.
func (f *XRateLimitFormat) resetOf(d *core.Decision) int64 {
	if !f.unix {
		return ceilSeconds(d.ResetAfter)
	}
	return d.At.Add(d.ResetAfter + time.Second - 1).Unix()
}
