package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// readAlone reads the script's reply to one request.
func (l *ledger) readAlone(reply string, a *core.Ask) (core.Decision, error) {
	return readOne(reply, func(part string, now int64) (core.Decision, string, error) { return l.read(part, now, a) })
}

// readOne reads a reply by read, which reads the part of one request and returns the rest: there must be none.
func readOne[T any](reply string, read func(part string, now int64) (T, string, error)) (answer T, err error) {
	now, rest, err := readTime(reply)
	if err == nil {
		answer, rest, err = read(rest, now)
	}
	if err == nil && rest != "" {
		err = errReply
	}
	if err != nil {
		var none T
		return none, quoting(err, reply)
	}
	return answer, nil
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
func (l *ledger) read(reply string, now int64, a *core.Ask) (d core.Decision, _ string, err error) {
	var seen [maxLimits]facts
	admitted, stamp, rest, err := l.readFacts(reply, now, &seen)
	if err != nil {
		return d, rest, err
	}
	var binding int
	var judged window.Verdict
	limits := l.limitsFor(a)
	for i, limit := range limits {
		if v := seen[i].decide(limit, now, stamp, a.Cost, isCharge(a)); i == 0 || v.Binds(judged) {
			binding, judged = i, v
		}
	}
	if judged.Admitted != admitted {
		return d, rest, errDisagree
	}
	d = core.Decision{
		Allowed:    admitted,
		Source:     core.SourceCounted,
		Limit:      limits[binding],
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

// readUsage reads the script's reply to a request of cost 0.
func (l *ledger) readUsage(reply string) ([]core.Usage, error) {
	return readOne(reply, func(part string, now int64) ([]core.Usage, string, error) {
		var seen [maxLimits]facts
		admitted, stamp, rest, err := l.readFacts(part, now, &seen)
		if err == nil && !admitted {
			err = errDisagree
		}
		if err != nil {
			return nil, rest, err
		}
		uses := make([]core.Usage, len(l.rule.Limits))
		for i, limit := range l.rule.Limits {
			limit.Requests = window.Boundless
			v := seen[i].decide(limit, now, stamp, 0, false)
			uses[i] = core.Usage{
				Used: v.Units(), ResetAfter: window.Duration(v.ResetAfter), At: time.UnixMicro(now),
			}
		}
		return uses, rest, nil
	})
}

// readFacts reads the part of a reply for one request into seen, a limit each. It returns whether the script has
// admitted the request, when the request is counted, and the rest of the reply, of which read says the same.
func (l *ledger) readFacts(
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
	stamp = now + l.ahead
	for i, limit := range l.rule.Limits {
		newest, after, ok := seen[i].read(reply, limit, now)
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
