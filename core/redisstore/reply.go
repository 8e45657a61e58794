package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// read reads the script's reply to one request.
func (q *request) read(reply string) (core.Decision, error) {
	now, part, err := readTime(reply)
	if err != nil {
		return core.Decision{}, err
	}
	d, rest, err := q.readPart(part, now)
	if err == nil && rest != "" {
		return core.Decision{}, notRead(reply)
	}
	return d, err
}

// readPart reads the part of a reply for one request, as ledger.read, and fills in what a Usage asks for.
func (q *request) readPart(part string, now int64) (d core.Decision, rest string, err error) {
	if q.uses == nil {
		return q.ledger.read(part, now, &q.Ask)
	}
	rest, err = q.ledger.readUses(part, now, q.uses)
	return d, rest, err
}

// latestSecond is in the year 2255. Times after it are not exact in Lua.
const latestSecond = 1<<53/1_000_000 - 1

// readTime reads the server's time, with which a reply begins.
func readTime(reply string) (now int64, rest string, err error) {
	seconds, rest, ok := number(reply)
	micros, rest, ok2 := number(strings.TrimPrefix(rest, " "))
	if !ok || !ok2 || seconds > latestSecond || micros > 999_999 {
		return 0, "", notRead(reply)
	}
	return seconds*1_000_000 + micros, rest, nil
}

// read turns the part of a reply for one request, see format.go, into a decision, and returns the rest of the reply.
// The arithmetic is the same as in memory. After errReply, and only then, it is not known where the rest begins.
func (l *ledger) read(reply string, now int64, a *core.Ask) (d core.Decision, _ string, err error) {
	var seen [maxLimits]facts
	admitted, stamp, rest, err := l.readFacts(reply, now, &seen)
	if err != nil {
		return d, rest, err
	}
	var binding int
	var judged window.Verdict
	for i, limit := range l.rule.Limits {
		if v := seen[i].decide(limit, now, stamp, a.Cost, isCharge(a)); i == 0 || v.Binds(judged) {
			binding, judged = i, v
		}
	}
	if judged.Admitted != admitted {
		return d, rest, fmt.Errorf("%w: %.200q", errDisagree, reply)
	}
	d = core.Decision{
		Allowed:    admitted,
		Source:     core.SourceCounted,
		Limit:      l.rule.Limits[binding],
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
func (l *ledger) readUses(part string, now int64, uses []core.Usage) (rest string, err error) {
	var seen [maxLimits]facts
	admitted, stamp, rest, err := l.readFacts(part, now, &seen)
	switch {
	case err != nil:
		return rest, err
	case !admitted:
		return rest, fmt.Errorf("%w: %.200q", errDisagree, part)
	}
	for i, limit := range l.rule.Limits {
		limit.Requests = window.Boundless
		v := seen[i].decide(limit, now, stamp, 0, false)
		uses[i] = core.Usage{Used: v.Units(), ResetAfter: window.Duration(v.ResetAfter), At: time.UnixMicro(now)}
	}
	return rest, nil
}

// readFacts reads the part of a reply for one request into seen, a limit each. It returns whether the script has
// admitted the request, when the request is counted, and the rest of the reply, of which read says the same.
func (l *ledger) readFacts(
	part string, now int64, seen *[maxLimits]facts,
) (admitted bool, stamp int64, rest string, err error) {
	if part == "" {
		return false, 0, "", notRead(part)
	}
	switch verdict, rest := part[0], part[1:]; verdict {
	case 'A', 'R':
		// All that is there decides when the request is counted, and so about each limit.
		stamp = now + l.ahead
		latest := max(stamp, now+l.allowance())
		for i, limit := range l.rule.Limits {
			newest, after, ok := seen[i].read(rest, limit, now)
			if !ok {
				return false, 0, "", notRead(part)
			}
			if err == nil && !seen[i].possible(limit, now, newest, latest) {
				err = remedied(fmt.Errorf("%w: times or units that limit %q cannot have: %q",
					ErrForeign, limit.Name, rest[:len(rest)-len(after)]))
			}
			stamp, rest = max(stamp, newest), after
		}
		return verdict == 'A', stamp, rest, err
	case 'F', 'E':
		text, rest, ok := strings.Cut(rest, "\n")
		if !ok {
			break
		}
		err = errors.New(text[:min(len(text), maxErrorText)])
		if verdict == 'F' {
			err = fmt.Errorf("%w: %s", ErrForeign, withoutClient(err.Error()))
		}
		return false, 0, rest, remedied(err)
	}
	return false, 0, "", notRead(part)
}

// allowance returns how far ahead of the server's clock the rule may have counted, in microseconds.
func (l *ledger) allowance() int64 {
	shortest := l.rule.Limits[0].Window
	for _, limit := range l.rule.Limits[1:] {
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
