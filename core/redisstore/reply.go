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

// maxErrorText is the most bytes of a reply in an error: more than a key of the store has.
const maxErrorText = 1024

// readAlone reads the script's reply to one request.
func (c *counts) readAlone(reply string, a *core.Ask) (core.Decision, error) {
	now, rest, err := readTime(reply)
	if err == nil {
		var d core.Decision
		if d, rest, err = c.read(rest, now, a); err == nil && rest == "" {
			return d, nil
		}
	}
	if err == nil {
		err = errReply
	}
	return core.Decision{}, quoting(err, reply)
}

// quoting returns err with the reply, if that makes no sense.
func quoting(err error, reply string) error {
	if err == errReply || err == errDisagree {
		return fmt.Errorf("%w: %.200q", err, reply)
	}
	return err
}

// readTime reads the server's time, with which a reply begins.
func readTime(reply string) (now int64, rest string, err error) {
	seconds, rest, ok := number(reply)
	micros, rest, ok2 := number(strings.TrimPrefix(rest, " "))
	if !ok || !ok2 {
		return 0, "", errReply
	}
	return seconds*1_000_000 + micros, rest, nil
}

// read turns the part of a reply for one request, see format.go, into a decision, and returns the rest of the reply.
// The arithmetic is the same as in memory. After errReply, and only then, it is not known where the rest begins.
func (c *counts) read(reply string, now int64, a *core.Ask) (d core.Decision, _ string, err error) {
	var seen [maxLimits]facts
	admitted, stamp, rest, err := c.readFacts(reply, now, &seen)
	if err != nil {
		return d, rest, err
	}
	if d = decide(c.limitsFor(a), seen[:], now, stamp, a); d.Allowed != admitted {
		return core.Decision{}, rest, errDisagree
	}
	d.At = time.UnixMicro(now)
	if admitted && !a.Peek && a.Cost > 0 {
		d.At = time.UnixMicro(stamp)
	}
	return d, rest, nil
}

// decide returns the decision at now, without At, of limits of which these facts are known. An admitted request is
// counted at stamp.
func decide(limits []core.Limit, seen []facts, now, stamp int64, a *core.Ask) core.Decision {
	var binding int
	var judged window.Verdict
	for i, l := range limits {
		if v := seen[i].judge(l, now, stamp, a); i == 0 || v.Binds(judged) {
			binding, judged = i, v
		}
	}
	return core.Decision{
		Allowed:    judged.Admitted,
		Source:     core.Counted,
		Limit:      limits[binding],
		Remaining:  judged.Remaining,
		ResetAfter: window.Duration(judged.ResetAfter),
		RetryAfter: window.Duration(judged.RetryAfter),
	}
}

// judge returns what the limit says to a request at now, which is counted at stamp if it is admitted.
func (f *facts) judge(l core.Limit, now, stamp int64, a *core.Ask) window.Verdict {
	if !isCharge(a) {
		return f.decide(l, now, stamp, a.Cost)
	}
	n := l.Requests
	l.Requests = window.Boundless
	return window.Limit{N: n}.Charged(f.decide(l, now, stamp, a.Cost))
}

// readFacts reads the part of a reply for one request into seen, a limit each. It returns whether the script has
// admitted the request, when the request is counted, and the rest of the reply, of which read says the same.
func (c *counts) readFacts(
	reply string, now int64, seen *[maxLimits]facts,
) (admitted bool, stamp int64, rest string, err error) {
	if reply == "" {
		return false, 0, "", errReply
	}
	verdict, reply := reply[0], reply[1:]
	switch verdict {
	case 'A', 'R':
	case 'F', 'E':
		text, rest, ok := strings.Cut(reply, "\n")
		text = text[:min(len(text), maxErrorText)]
		switch {
		case !ok:
			return false, 0, "", errReply
		case verdict == 'F':
			return false, 0, rest, remedied(fmt.Errorf("%w: %s", ErrForeign, withoutClient(text)))
		}
		return false, 0, rest, remedied(errors.New(text))
	default:
		return false, 0, "", errReply
	}
	// All that is there decides when the request is counted, and so about each limit.
	stamp = now + c.ahead
	for i, l := range c.rule.Limits {
		newest, after, ok := seen[i].read(reply, l, now)
		if !ok {
			return false, 0, "", errReply
		}
		stamp, reply = max(stamp, newest), after
	}
	return verdict == 'A', stamp, reply, nil
}

// withoutClient returns a key of the store without what stands in braces: no error names
// a client.
func withoutClient(key string) string {
	prefix, rest, _ := strings.Cut(key, "{")
	_, suffix, _ := strings.Cut(rest, "}")
	return prefix + "{...}" + suffix
}

// number reads the digits with which s begins: at most 18, so that the number fits.
func number(s string) (n int64, rest string, ok bool) {
	i := 0
	for i < len(s) && i < 18 && s[i] >= '0' && s[i] <= '9' {
		n = 10*n + int64(s[i]-'0')
		i++
	}
	return n, s[i:], i > 0
}
