package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

var (
	errReply    = errors.New("sash: the reply of the script cannot be read")
	errDisagree = errors.New("sash: the script decided otherwise than its facts say")
)

// ErrForeign is in the error of a decision that found, at a key of the store, a
// value that is not the store's. The value has been deleted, unless the request
// was a peek; the next request is counted again.
var ErrForeign = errors.New("sash: a value that is not the store's stood at its key")

// readAlone reads the script's reply to one request.
func (c *counts) readAlone(reply string, cost int64, charge bool) (core.Decision, error) {
	now, rest, err := readTime(reply)
	if err == nil {
		var d core.Decision
		if d, rest, err = c.read(rest, now, cost, charge); err == nil && rest == "" {
			return d, nil
		}
	}
	if err == nil {
		err = errReply
	}
	return core.Decision{}, fmt.Errorf("%w: %.200q", err, reply)
}

// readTime reads the server's time, with which a reply begins.
func readTime(reply string) (now int64, rest string, err error) {
	seconds, rest, ok := number(reply)
	micros, rest, ok2 := number(skip(rest))
	if !ok || !ok2 {
		return 0, "", errReply
	}
	return seconds*1_000_000 + micros, skip(rest), nil
}

// read turns what the script saw of one request into what it decided, and
// returns the rest of the reply; see decide.lua. The arithmetic is the same as
// in memory. Only after errReply is it not known where the rest begins.
func (c *counts) read(reply string, now, cost int64, charge bool) (d core.Decision, rest string, err error) {
	if reply == "" {
		return d, "", errReply
	}
	verdict, reply := reply[0], reply[1:]
	switch verdict {
	case 'A', 'R':
	case 'F', 'E':
		text, rest, ok := strings.Cut(reply, "\n")
		switch {
		case !ok:
			return d, "", errReply
		case verdict == 'F':
			return d, rest, fmt.Errorf("%w: %s", ErrForeign, text)
		}
		return d, rest, errors.New(text)
	default:
		return d, "", errReply
	}
	// All that is there decides when the request is counted, and so about each limit.
	var seen [maxLimits]facts
	stamp := now + c.ahead
	for i, l := range c.rule.Limits {
		newest, after, ok := seen[i].read(reply, l, now, cost)
		if !ok {
			return d, "", errReply
		}
		stamp, reply = max(stamp, newest), after
	}
	var binding int
	var judged window.Verdict
	for i, l := range c.rule.Limits {
		if v := seen[i].decide(l, now, stamp, cost); i == 0 || v.Binds(judged) {
			binding, judged = i, v
		}
	}
	if judged.Admitted != (verdict == 'A') {
		return d, reply, errDisagree
	}
	when := now
	if judged.Admitted && charge && cost > 0 {
		when = stamp
	}
	return core.Decision{
		Allowed:    judged.Admitted,
		Source:     core.Counted,
		Limit:      c.rule.Limits[binding],
		Remaining:  judged.Remaining,
		ResetAfter: window.Duration(judged.ResetAfter),
		RetryAfter: window.Duration(judged.RetryAfter),
		At:         time.UnixMicro(when),
	}, reply, nil
}

// facts are what one limit is judged by.
type facts struct {
	log     window.LogFacts
	counter window.Counter
}

func (f *facts) decide(l core.Limit, now, stamp, cost int64) window.Verdict {
	limit := window.Limit{N: l.Requests, W: l.Window.Microseconds()}
	if l.Algorithm == core.SlidingLog {
		return f.log.Decide(limit, now, stamp, cost)
	}
	return f.counter.At(stamp, limit.W).Decide(limit, now, stamp, cost)
}

// read reads the facts that s begins with, and how far counting has come: no
// later request is counted before that.
func (f *facts) read(s string, l core.Limit, now, cost int64) (newest int64, rest string, ok bool) {
	if s == "" {
		return 0, "", false
	}
	if l.Algorithm == core.SlidingCounter {
		return f.readCounter(s, l.Window.Microseconds(), now)
	}
	if s[0] == '-' {
		return 0, s[1:], true
	}
	var first, last, leaver entry
	switch s[0] {
	case 'S':
		if len(s) < 1+2*shortEntry {
			return 0, "", false
		}
		last = readEntry(s[1:], shortEntry, now)
		first, s = readEntry(s[1+shortEntry:], shortEntry, now), s[1+2*shortEntry:]
	case 'M':
		s = s[1:]
		for _, e := range []*entry{&last, &first, &leaver} {
			if *e, s, ok = markedEntry(s, now); !ok {
				return 0, "", false
			}
		}
		if first.size == 0 || last.size == 0 {
			return 0, "", false
		}
	default:
		return 0, "", false
	}
	if leaver.size == 0 {
		leaver = first
	}
	f.log = window.LogFacts{
		Units:  (last.total - first.total + first.cost) & (totals - 1),
		Oldest: first.stamp,
		Leaver: leaver.stamp,
	}
	return last.stamp, s, true
}

// readCounter is read for a counter with windows of w.
func (f *facts) readCounter(s string, w, now int64) (start int64, rest string, ok bool) {
	size := shortCounter
	switch {
	case s[0] == noCounter:
		return 0, s[1:], true
	case s[0] == longMark:
		size, s = longCounter, s[1:]
	}
	if len(s) < size {
		return 0, "", false
	}
	if size == longCounter {
		f.counter.Prev, f.counter.Cur = uint48(s), uint48(s[6:])
	} else {
		f.counter.Prev, f.counter.Cur = uint24(s), uint24(s[3:])
	}
	start = nearest(s[size-6:], now)
	f.counter.Index = start / w
	return start, s[size:], true
}

const (
	shortEntry = 9 // of cost 1
	longEntry  = 12

	shortCounter = 12 // of counts that fit into 23 bits: it begins with less than the marks
	longCounter  = 18
	longMark     = 254
	noCounter    = 255

	totals = 1 << 20 // running totals are modulo that
)

// entry is one of a log, or none if it has no size.
type entry struct {
	size               int
	stamp, total, cost int64
}

// readEntry reads the entry of the given size that s begins with.
func readEntry(s string, size int, now int64) entry {
	e := entry{size, nearest(s, now), uint24(s[6:]), 1}
	if size == longEntry {
		e.cost = uint24(s[9:])
	}
	return e
}

// markedEntry reads an entry after the mark of its size, or the mark of none.
func markedEntry(s string, now int64) (e entry, rest string, ok bool) {
	if s == "" {
		return e, "", false
	}
	size := 0
	switch s[0] {
	case '-':
		return e, s[1:], true
	case 'S':
		size = shortEntry
	case 'L':
		size = longEntry
	}
	if size == 0 || len(s) < 1+size {
		return e, "", false
	}
	return readEntry(s[1:], size, now), s[1+size:], true
}

// nearest is the time nearest to now that has the last 48 bits that s begins
// with.
func nearest(s string, now int64) int64 {
	return now - (now-uint48(s))<<16>>16 // the sign of 48 bits
}

func uint48(s string) int64 { return uint24(s)<<24 | uint24(s[3:]) }

func uint24(s string) int64 { return int64(s[0])<<16 | int64(s[1])<<8 | int64(s[2]) }

func skip(s string) string { return strings.TrimPrefix(s, " ") }

// number reads the digits that s begins with: at most 18, so that it fits.
func number(s string) (n int64, rest string, ok bool) {
	i := 0
	for i < len(s) && i < 18 && s[i] >= '0' && s[i] <= '9' {
		n = 10*n + int64(s[i]-'0')
		i++
	}
	return n, s[i:], i > 0
}
