package nethttp

import (
	"net/http"
	"slices"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
)

// knownFormats are the formats that a guard looks for in a response's header, to
// find and remove the fields of a guard around it: the formats that it writes
// itself, and the two that other guards usually write.
type knownFormats struct {
	readable []headers.Format
	names    []string // the names of all their fields, in the usual variants; sorted
}

// newKnownFormats returns the formats of a guard that writes the formats own.
func newKnownFormats(own []headers.Format) knownFormats {
	var f knownFormats
	for _, format := range append(slices.Clip(own), headers.Classic, headers.IETF) {
		names := format.Names()
		if !slices.ContainsFunc(f.readable, func(r headers.Format) bool { return slices.Equal(r.Names(), names) }) {
			f.readable = append(f.readable, format)
		}
		f.names = append(f.names, names...)
	}
	f.names = append(f.names, headers.Classic.WithWindow().Names()...)
	slices.Sort(f.names)
	f.names = slices.Compact(f.names)
	return f
}

// read returns what the limit fields in h say, and reports whether there are any.
func (f *knownFormats) read(h http.Header, at time.Time) (remaining int64, reset time.Duration, ok bool) {
	if len(h) == 0 {
		return 0, 0, false
	}
	for _, format := range f.readable {
		if remaining, reset, ok = format.Read(h, at); ok {
			return remaining, reset, true
		}
	}
	return 0, 0, false
}

// setLimitFields writes the fields f of d, if its limit is known, and removes the
// fields of an outer guard. If d is allowed and the outer limit is the tighter one,
// the outer fields stay instead. memory holds the values of a Classic format; if it
// is nil, they get memory of their own.
func (g *Decider) setLimitFields(
	w http.ResponseWriter, r *http.Request, d *core.Decision, f *fields, memory *headers.ClassicMemory,
) {
	if d.Limit.Requests == 0 || d.Allowed && f.none() {
		return
	}
	h := w.Header()
	remaining, reset, found := g.known.read(h, d.At)
	timeout := insideTimeoutHandler(w)
	hidden := false // whether an outer guard may have set fields that are not in h
	if timeout && !found {
		var outer http.Header
		outer, handedOn := outerHeader(r)
		remaining, reset, found = g.known.read(outer, d.At)
		hidden = !handedOn
	}
	if found && d.Allowed && !tighter(d, remaining, reset) {
		return
	}
	if found || hidden {
		g.known.remove(h, timeout)
	}
	f.write(h, d, memory)
}

// remove removes the limit fields from h. With timeout, h is the header inside an
// http.TimeoutHandler, which copies h over the outer header afterwards. A field
// without values then removes the outer field of the same name.
func (f *knownFormats) remove(h http.Header, timeout bool) {
	for _, name := range f.names {
		if timeout {
			h[name] = nil
		} else {
			delete(h, name)
		}
	}
}

// tighter reports whether the limit of d binds rather than an outer limit with the
// given numbers, by the rule by which core.Decision names the limit that binds.
// reset is rounded up to seconds. This does not change the result, because the
// outer limit binds in a tie.
func tighter(d *core.Decision, remaining int64, reset time.Duration) bool {
	if d.Remaining != remaining {
		return d.Remaining < remaining
	}
	return d.ResetAfter > reset
}
