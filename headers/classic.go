package headers

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/decimal"
)

// Classic is the format that most clients know, about the limit that binds:
//
//	X-RateLimit-Limit: 100      requests per window
//	X-RateLimit-Remaining: 42   units left
//	X-RateLimit-Reset: 17       seconds until quota comes back, rounded up
//
// Go writes the names as X-Ratelimit-Limit and so on; names of fields are not
// case-sensitive.
var Classic = ClassicFormat{limit: "X-Ratelimit-Limit", remaining: "X-Ratelimit-Remaining", reset: "X-Ratelimit-Reset"}

// ClassicFormat is the type of [Classic]; its methods return variants. A guard
// refuses names that no header field can have, such as those of the zero value.
type ClassicFormat struct {
	limit, remaining, reset string
	window                  string // empty: the format has no such field
	unix                    bool   // Reset is a Unix time
}

// UnixReset returns the format with Reset as a Unix time in whole seconds,
// rounded up, by the store's clock, as GitHub writes it.
func (f ClassicFormat) UnixReset() ClassicFormat { f.unix = true; return f }

// WithWindow returns the format with a fourth field, X-RateLimit-Window: the
// window of the limit that binds, in seconds. It is left out for a window that
// is not a whole number of seconds.
func (f ClassicFormat) WithWindow() ClassicFormat { f.window = "X-Ratelimit-Window"; return f }

// WithNames returns the format with other names for its fields. An empty
// window leaves that field out; the other names are required.
func (f ClassicFormat) WithNames(limit, remaining, reset, window string) ClassicFormat {
	f.limit = http.CanonicalHeaderKey(limit)
	f.remaining = http.CanonicalHeaderKey(remaining)
	f.reset = http.CanonicalHeaderKey(reset)
	f.window = http.CanonicalHeaderKey(window)
	return f
}

// Names implements [Format].
func (f ClassicFormat) Names() []string {
	names := []string{f.limit, f.remaining, f.reset}
	if f.window != "" {
		names = append(names, f.window)
	}
	return names
}

// Prepare implements [Format].
func (f ClassicFormat) Prepare(limits []core.Limit) (func(http.Header, core.Decision), error) {
	w := f.Writer(limits)
	return func(h http.Header, d core.Decision) { w.Write(h, &d, new(ClassicMemory)) }, nil
}

// ClassicWriter sets the fields of a [ClassicFormat] in memory that its caller
// provides. It is for callers that allocate for a response anyway, as package
// nethttp does to refuse. It is safe for concurrent use.
type ClassicWriter struct {
	format ClassicFormat

	// The value of the field Limit depends on Requests alone: digits[i] is the value
	// for requests[i]. The share of a fallback is not among them.
	requests []int64
	digits   []string
}

// ClassicMemory holds the values of one response's fields, in 80 bytes. The header
// keeps it, so each response needs its own.
type ClassicMemory struct {
	values [3]string

	// text holds the digits of Remaining and Reset: at most 13 and 10 with the
	// largest limit and a Unix time. If a store with a mistake gives more digits,
	// they get an allocation of their own.
	text [32]byte
}

// Writer is [ClassicFormat.Prepare] for a caller that provides the memory.
func (f ClassicFormat) Writer(limits []core.Limit) *ClassicWriter {
	w := &ClassicWriter{format: f}
	for _, l := range limits {
		w.requests, w.digits = append(w.requests, l.Requests), append(w.digits, strconv.FormatInt(l.Requests, 10))
	}
	return w
}

// Write sets the fields in h for d, whose Limit must be known.
func (w *ClassicWriter) Write(h http.Header, d *core.Decision, m *ClassicMemory) {
	f := &w.format
	if i := slices.Index(w.requests, d.Limit.Requests); i >= 0 {
		m.values[0] = w.digits[i]
	} else {
		m.values[0] = strconv.FormatInt(d.Limit.Requests, 10)
	}
	m.values[1] = decimal.String(m.text[:20], d.Remaining)
	m.values[2] = decimal.String(m.text[20:], f.resetOf(d))
	h[f.limit] = m.values[0:1:1]
	h[f.remaining] = m.values[1:2:2]
	h[f.reset] = m.values[2:3:3]
	if f.window == "" {
		return
	}
	if seconds, ok := wholeSeconds(d.Limit.Window); ok {
		h[f.window] = []string{strconv.FormatInt(seconds, 10)}
	}
}

// resetOf returns the value of the field Reset.
func (f *ClassicFormat) resetOf(d *core.Decision) int64 {
	if !f.unix {
		return ceilSeconds(d.ResetAfter)
	}
	t := d.At.Add(d.ResetAfter)
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}
