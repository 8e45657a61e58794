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
	// ErrForeign means that a key of the store held a value of another kind.
	ErrForeign = errors.New("sash: a value that is not the store's stood at its key")

	// ErrReply and ErrDisagree are in the errors of replies that no script of the store gives.
	ErrReply    = errors.New("sash: the reply of the script cannot be read")
	ErrDisagree = errors.New("sash: the script decided otherwise than its facts say")
)

// MaxErrorText is the most bytes of a reply in an error: more than a key of the store has.
const MaxErrorText = 1024

// NotRead returns ErrReply with the reply.
func NotRead(reply string) error { return fmt.Errorf("%w: %.200q", ErrReply, reply) }

// ReadAlone reads the script's reply to one request, as Read.
func (r *Rule) ReadAlone(reply string, a *core.Ask, uses []core.Usage) (core.Decision, error) {
	now, part, err := ReadTime(reply)
	if err != nil {
		return core.Decision{}, err
	}
	d, rest, err := r.Read(part, now, a, uses)
	if err == nil && rest != "" {
		return core.Decision{}, NotRead(reply)
	}
	return d, err
}

// Read turns the part of a reply for one request into a decision, and returns the rest of the reply. If there are uses,
// it fills them in instead: then the request is one of cost 0. After ErrReply, and only then, it is not known where the
// rest begins.
func (r *Rule) Read(part string, now int64, a *core.Ask, uses []core.Usage) (d core.Decision, rest string, err error) {
	if uses == nil {
		return r.read(part, now, a)
	}
	rest, err = r.readUses(part, now, uses)
	return d, rest, err
}

// latestSecond is in the year 2255. Times after it are not exact in Lua.
const latestSecond = 1<<53/1_000_000 - 1

// ReadTime reads the server's time, with which a reply begins.
func ReadTime(reply string) (now int64, rest string, err error) {
	seconds, rest, ok := number(reply)
	micros, rest, ok2 := number(strings.TrimPrefix(rest, " "))
	if !ok || !ok2 || seconds > latestSecond || micros > 999_999 {
		return 0, "", NotRead(reply)
	}
	return seconds*1_000_000 + micros, rest, nil
}

// read turns the part of a reply for one request, see format.go, into a decision, and returns the rest of the reply.
// The arithmetic is the same as in memory. After ErrReply, and only then, it is not known where the rest begins.
func (r *Rule) read(reply string, now int64, a *core.Ask) (d core.Decision, _ string, err error) {
	var seen [MaxLimits]facts
	admitted, stamp, rest, err := r.readAll(reply, now, &seen)
	if err != nil {
		return d, rest, err
	}
	var binding int
	var judged window.Verdict
	for i, limit := range r.Limits {
		if v := seen[i].decide(limit, now, stamp, a.Cost, isCharge(a)); i == 0 || v.Binds(judged) {
			binding, judged = i, v
		}
	}
	if judged.Admitted != admitted {
		return d, rest, fmt.Errorf("%w: %.200q", ErrDisagree, reply)
	}
	d = core.Decision{
		Allowed:    admitted,
		Source:     core.SourceCounted,
		Limit:      r.Limits[binding],
		Remaining:  judged.Remaining,
		ResetAfter: window.Duration(judged.ResetAfter),
		RetryAfter: window.Duration(judged.RetryAfter),
		At:         time.UnixMicro(now),
	}
	if admitted && !a.Peek && a.Cost > 0 {
		d.At = time.UnixMicro(stamp)
	}
	return d, rest, nil
}

// readUses reads the part of a reply for a request of cost 0 into uses, and returns the rest as read does.
func (r *Rule) readUses(part string, now int64, uses []core.Usage) (rest string, err error) {
	var seen [MaxLimits]facts
	admitted, stamp, rest, err := r.readAll(part, now, &seen)
	switch {
	case err != nil:
		return rest, err
	case !admitted:
		return rest, fmt.Errorf("%w: %.200q", ErrDisagree, part)
	}
	for i, limit := range r.Limits {
		v := seen[i].judge(limit, now, stamp, 0, true)
		uses[i] = core.Usage{Used: v.Units(), ResetAfter: window.Duration(v.ResetAfter), At: time.UnixMicro(now)}
	}
	return rest, nil
}

// readAll reads the part of a reply for one request into seen, a limit each. It returns whether the script has
// admitted the request, when the request is counted, and the rest of the reply, of which read says the same.
func (r *Rule) readAll(
	part string, now int64, seen *[MaxLimits]facts,
) (admitted bool, stamp int64, rest string, err error) {
	if part == "" {
		return false, 0, "", NotRead(part)
	}
	switch verdict, rest := part[0], part[1:]; verdict {
	case 'A', 'R':
		// All that is there decides when the request is counted, and so about each limit.
		stamp = now + r.Ahead
		latest := max(stamp, now+r.allowance())
		for i, limit := range r.Limits {
			own, after, ok := readFacts(rest, limit, now)
			if !ok {
				return false, 0, "", NotRead(part)
			}
			seen[i] = own
			if err == nil && !own.possible(limit, now, latest) {
				err = fmt.Errorf("%w: times or units that limit %q cannot have: %q",
					ErrForeign, limit.Name, rest[:len(rest)-len(after)])
			}
			stamp, rest = max(stamp, own.newest), after
		}
		return verdict == 'A', stamp, rest, err
	case 'F', 'E':
		text, rest, ok := strings.Cut(rest, "\n")
		if !ok {
			break
		}
		err = errors.New(text[:min(len(text), MaxErrorText)])
		if verdict == 'F' {
			err = fmt.Errorf("%w: %s", ErrForeign, withoutClient(err.Error()))
		}
		return false, 0, rest, err
	}
	return false, 0, "", NotRead(part)
}

// allowance returns how far ahead of the server's clock the rule may have counted, in microseconds.
func (r *Rule) allowance() int64 {
	shortest := r.Limits[0].Window
	for _, limit := range r.Limits[1:] {
		shortest = min(shortest, limit.Window)
	}
	return window.Allowance(shortest.Microseconds())
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
