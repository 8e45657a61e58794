package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// counts is a rule bound to its store.
type counts struct {
	store    *Store
	rule     core.Rule
	script   script
	batches  *batches // nil where each request must be sent by itself
	args     []any    // of the script, for all limits
	suffixes []string // of the keys, a limit each
}

var _ core.Counts = (*counts)(nil)

// appendKeys appends the keys of a client, a limit each, to text, and where each
// of them ends to ends.
func (c *counts) appendKeys(text []byte, ends []int, client string) ([]byte, []int) {
	start := len(text)
	text = append(append(text, c.store.prefix...), ':')
	text = appendTag(text, c.rule.Name, c.rule.Rule, client)
	tagged := len(text)
	for i, suffix := range c.suffixes {
		if i > 0 {
			text = append(text, text[start:tagged]...)
		}
		text = append(text, suffix...)
		ends = append(ends, len(text))
	}
	return text, ends
}

// cut appends the parts of text that end at ends.
func cut(dst []any, text string, ends []int) []any {
	start := 0
	for _, end := range ends {
		dst = append(dst, text[start:end])
		start = end
	}
	return dst
}

// keys appends the keys of a client, a limit each.
func (c *counts) keys(dst []any, client string) []any {
	var few [192]byte
	var some [4]int
	text, ends := c.appendKeys(few[:0], some[:0], client)
	return cut(dst, string(text), ends)
}

// Take implements [core.Counts].
func (c *counts) Take(ctx context.Context, key string, cost int64, charge bool) (core.Decision, error) {
	if cost == 0 {
		return c.ask(ctx, key, cost, charge)
	}
	if d, ok := c.store.denials.find(c, key, cost); ok {
		return d, nil
	}
	sent := time.Now()
	d, err := c.ask(ctx, key, cost, charge)
	if err == nil {
		c.store.denials.note(c, key, cost, sent, d)
	}
	return d, err
}

// ask has the script decide, together with what waits for the same server, if
// that answers.
func (c *counts) ask(ctx context.Context, key string, cost int64, charge bool) (core.Decision, error) {
	if c.batches != nil && !c.batches.breaker.notClosed.Load() {
		return c.batches.decide(ctx, c, key, cost, charge, nil)
	}
	args := c.command(key, cost, charge)
	if p := c.store.client.pipeline(ctx, args[3].(string)); p != nil && !p.breaker.notClosed.Load() {
		return p.decide(ctx, c, key, cost, charge, args)
	}
	return c.evalAlone(ctx, args, cost, charge)
}

// askAlone has the script decide one request.
func (c *counts) askAlone(ctx context.Context, key string, cost int64, charge bool) (core.Decision, error) {
	return c.evalAlone(ctx, c.command(key, cost, charge), cost, charge)
}

func (c *counts) evalAlone(ctx context.Context, args []any, cost int64, charge bool) (core.Decision, error) {
	reply, err := c.store.client.eval(ctx, args[3].(string), args, c.script.source)
	if err != nil {
		return core.Decision{}, err
	}
	return c.readAlone(reply, cost, charge)
}

// command is the script's call for one request.
func (c *counts) command(key string, cost int64, charge bool) []any {
	args := make([]any, 0, 4+len(c.suffixes)+len(c.args))
	args = append(args, "evalsha", c.script.sha, strconv.Itoa(len(c.suffixes)))
	return c.arguments(c.keys(args, key), cost, charge)
}

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
	return core.Decision{}, fmt.Errorf("%w: %q", err, reply)
}

// arguments appends the script's arguments for one request.
func (c *counts) arguments(dst []any, cost int64, charge bool) []any {
	if cost == 1 && charge {
		return append(append(dst, "1"), c.args...) // a constant takes no memory
	}
	// Whatever exceeds every limit is refused alike; this keeps it exact in a double.
	n := min(cost, core.MaxCounterRequests+1)
	if !charge {
		n = -n
	}
	return append(append(dst, strconv.FormatInt(n, 10)), c.args...)
}

// Reset implements [core.Counts]. This process believes it at once, others
// within a second.
func (c *counts) Reset(ctx context.Context, key string) error {
	args := c.keys([]any{"del"}, key)
	err := c.store.client.del(ctx, args[1].(string), args)
	c.store.denials.forget(key)
	return err
}

var (
	errReply    = errors.New("sash: the reply of the script cannot be read")
	errDisagree = errors.New("sash: the script decided otherwise than its facts say")
)

// ErrForeign is in the error of a decision that found, at a key of the store, a
// value that is not the store's. The value has been deleted, unless the request
// was a peek; the next request is counted again.
var ErrForeign = errors.New("sash: a value that is not the store's stood at its key")

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
	verdict := reply[0]
	if verdict == 'F' || verdict == 'E' {
		text, rest, ok := strings.Cut(reply[1:], "\n")
		switch {
		case !ok:
			return d, "", errReply
		case verdict == 'F':
			return d, rest, fmt.Errorf("%w: %s", ErrForeign, text)
		}
		return d, rest, errors.New(text)
	}
	var ok [3]bool
	ahead, reply, found := number(reply[1:])
	if !found || reply == "" {
		return d, "", errReply
	}
	reply = skip(reply)
	stamp := now + ahead

	var binding int
	var judged window.Verdict
	for i, l := range c.rule.Limits {
		limit := window.Limit{N: l.Requests, W: l.Window.Microseconds()}
		var v window.Verdict
		if l.Algorithm == core.SlidingLog {
			var f window.LogFacts
			f.Units, reply, ok[0] = number(reply)
			f.Oldest, reply, ok[1] = entry(reply, now)
			f.Leaver, reply, ok[2] = entry(reply, now)
			if !ok[0] || !ok[1] || !ok[2] {
				return d, "", errReply
			}
			v = f.Decide(limit, now, stamp, cost)
		} else {
			var counter window.Counter
			if counter, reply, ok[0] = readCounter(reply); !ok[0] {
				return d, "", errReply
			}
			v = counter.At(stamp, limit.W).Decide(limit, now, stamp, cost)
		}
		if i == 0 || v.Binds(judged) {
			binding, judged = i, v
		}
	}
	if judged.Admitted != (verdict == '1') {
		return d, reply, errDisagree
	}
	when := now
	if judged.Admitted && charge && cost > 0 {
		when = stamp
	}
	return core.Decision{
		Allowed:    judged.Admitted,
		Limit:      c.rule.Limits[binding],
		Remaining:  judged.Remaining,
		ResetAfter: window.Duration(judged.ResetAfter),
		RetryAfter: window.Duration(judged.RetryAfter),
		At:         time.UnixMicro(when),
	}, reply, nil
}

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

// entry reads the stamp of a framed entry of a log, or 0 for none. The stamp
// is the time nearest to now that has its last 48 bits.
func entry(s string, now int64) (stamp int64, rest string, ok bool) {
	if s == "" {
		return 0, "", false
	}
	size := 0
	switch s[0] {
	case '-':
		return 0, s[1:], true
	case 'S':
		size = 9
	case 'L':
		size = 12
	}
	if size == 0 || len(s) < 1+size {
		return 0, "", false
	}
	for i := range 6 {
		stamp = stamp<<8 | int64(s[1+i])
	}
	age := (now - stamp) << 16 >> 16 // the sign of 48 bits
	return now - age, s[1+size:], true
}

// readCounter reads two numbers of 13 digits, one of up to 13, and a space; or
// just the space, for nothing counted.
func readCounter(s string) (c window.Counter, rest string, ok bool) {
	value, rest, ok := strings.Cut(s, " ")
	if !ok || value == "" {
		return c, rest, ok
	}
	if len(value) < 27 || len(value) > 39 {
		return c, "", false
	}
	for i, n := range []*int64{&c.Index, &c.Prev, &c.Cur} {
		digits := value[13*i:]
		if i < 2 {
			digits = digits[:13]
		}
		var after string
		if *n, after, ok = number(digits); !ok || after != "" {
			return c, "", false
		}
	}
	return c, rest, true
}
