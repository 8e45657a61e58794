package script

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

var (
	// ErrCorrupt means that a key of the store held a value of another kind.
	ErrCorrupt = errors.New("sash: a value that is not the store's stood at its key")

	// ErrReply and ErrMismatch are in the errors of replies that no script of the store gives.
	ErrReply    = errors.New("sash: the reply of the script cannot be read")
	ErrMismatch = errors.New("sash: the script decided otherwise than its facts say")
)

// MaxErrorText is the most bytes of a reply in an error: more than a key of the store has.
const MaxErrorText = 1024

// NotRead returns ErrReply with the reply.
func NotRead(reply string) error { return fmt.Errorf("%w: %.200q", ErrReply, reply) }

// maxSecond is in the year 2255. Times after it are not exact in Lua.
const maxSecond = 1<<53/1_000_000 - 1

// ReadTime reads the server's time, with which a reply begins.
func ReadTime(reply string) (now int64, rest string, err error) {
	seconds, rest, ok := number(reply)
	micros, rest, ok2 := number(strings.TrimPrefix(rest, " "))
	if !ok || !ok2 || seconds > maxSecond || micros > 999_999 {
		return 0, "", NotRead(reply)
	}
	return seconds*1_000_000 + micros, rest, nil
}

// Read turns the part of a reply for one request into a decision, and returns the rest of the reply. The script returns
// facts; the numbers are computed here, by the arithmetic of memory, and must agree with the script's A or R. If there
// are uses, it fills them in instead: then the request is one of cost 0. After ErrReply, and only then, it is not known
// where the rest begins.
func (r *Rule) Read(part string, now int64, a *core.Ask, uses []core.Usage) (d core.Decision, rest string, err error) {
	var seen [MaxLimits]facts
	admitted, stamp, rest, err := r.readFacts(part, now, &seen)
	switch {
	case err != nil:
		return d, rest, err
	case uses != nil:
		r.usage(&seen, now, stamp, uses)
		return d, rest, nil
	}
	var binding int
	var tightest window.Verdict
	for i, limit := range r.Limits {
		charge := isCharge(a)
		v := seen[i].decide(limit, now, stamp, a.Cost, charge)
		if charge {
			v = limitOf(limit).Charged(v)
		}
		if i == 0 || v.Binds(tightest) {
			binding, tightest = i, v
		}
	}
	if tightest.Admitted != admitted {
		return d, rest, fmt.Errorf("%w: %.200q", ErrMismatch, part)
	}
	d = core.Decision{
		Allowed:    admitted,
		Source:     core.SourceCounted,
		Limit:      r.Limits[binding],
		Remaining:  tightest.Remaining,
		ResetAfter: window.Duration(tightest.ResetAfter),
		RetryAfter: window.Duration(tightest.RetryAfter),
		At:         time.UnixMicro(now),
	}
	if admitted && !a.Peek && a.Cost > 0 {
		d.At = time.UnixMicro(stamp)
	}
	return d, rest, nil
}

// usage fills in the uses of a request of cost 0, a limit each.
func (r *Rule) usage(seen *[MaxLimits]facts, now, stamp int64, uses []core.Usage) {
	for i, limit := range r.Limits {
		v := seen[i].decide(limit, now, stamp, 0, true)
		uses[i] = core.Usage{Used: v.Units(), ResetAfter: window.Duration(v.ResetAfter), At: time.UnixMicro(now)}
	}
}

// readFacts reads the part of a reply for one request into seen, a limit each. It returns whether the script has
// admitted the request, the time of its charge, and the rest of the reply as Read does.
func (r *Rule) readFacts(
	part string, now int64, seen *[MaxLimits]facts,
) (admitted bool, stamp int64, rest string, err error) {
	if part == "" {
		return false, 0, "", NotRead(part)
	}
	switch verdict, rest := part[0], part[1:]; verdict {
	case 'A', 'R':
		// The newest stamp of all limits decides when the request is counted, and so about each limit.
		stamp = now + r.Delay
		for i, limit := range r.Limits {
			own, after, ok := readFacts(rest, limit, now)
			if !ok {
				return false, 0, "", NotRead(part)
			}
			seen[i], stamp, rest = own, max(stamp, own.newest), after
		}
		return verdict == 'A', stamp, rest, nil
	case 'F', 'E':
		text, rest, ok := strings.Cut(rest, "\n")
		if !ok {
			break
		}
		err = errors.New(text[:min(len(text), MaxErrorText)])
		if verdict == 'F' {
			err = fmt.Errorf("%w: %s", ErrCorrupt, withoutClient(err.Error()))
		}
		return false, 0, rest, err
	}
	return false, 0, "", NotRead(part)
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
