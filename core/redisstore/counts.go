package redisstore

import (
	"slices"
	"strconv"
	"time"

	"github.com/sashlimit/sash/core"
)

// counts is a rule bound to its store: what the rule's keys are, and how its script is called. How a reply is read
// stands in reply.go.
type counts struct {
	store    *Store
	rule     core.Rule
	script   script
	numkeys  any      // the number of limits, as an argument
	args     []any    // of the script, for all limits
	suffixes []string // of the keys, a limit each
	ahead    int64    // how far ahead of the server's clock requests are stamped, in microseconds: for a lease
}

// newCounts returns how s counts by rule.
func (s *Store) newCounts(rule core.Rule) *counts {
	c := &counts{store: s, rule: rule, script: s.scriptFor(false, rule.Limits)}
	c.args, c.numkeys = limitArgs(rule.Limits), strconv.Itoa(len(rule.Limits))
	for _, l := range rule.Limits {
		c.suffixes = append(c.suffixes, suffix(l))
	}
	return c
}

// aheadBy returns c with requests counted so much ahead of time.
func (c *counts) aheadBy(lifetime time.Duration) *counts {
	ahead := *c
	ahead.script = c.store.scriptFor(true, c.rule.Limits)
	ahead.args = append(slices.Clip(c.args), micros(lifetime))
	ahead.ahead = lifetime.Microseconds()
	return &ahead
}

// appendKeys appends the keys of a client, a limit each, to text, and where each of them ends to ends.
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

// command returns the script's call for one request.
func (c *counts) command(a *core.Ask) []any {
	args := make([]any, 0, 4+len(c.rule.Limits)+len(c.args))
	args = append(args, "evalsha", c.script.sha, c.numkeys)
	args = append(c.keys(args, a.Key), c.argsFor(a)...)
	if isPlain(a) {
		return args
	}
	return appendCost(args, a)
}

// limitsFor returns the limits that a request is decided by.
func (c *counts) limitsFor(a *core.Ask) []core.Limit {
	if hasLimits(a) {
		return a.Special.Limits
	}
	return c.rule.Limits
}

// argsFor returns the script's arguments for the limits of a request.
func (c *counts) argsFor(a *core.Ask) []any {
	if hasLimits(a) {
		return limitArgs(a.Special.Limits)
	}
	return c.args
}

// hasLimits reports whether a request has limits of its own.
func hasLimits(a *core.Ask) bool { return a.Special != nil && a.Special.Limits != nil }

// isCharge reports whether a request is counted whatever the limits say.
func isCharge(a *core.Ask) bool { return a.Special != nil && a.Special.Charge }

// isPlain reports whether a request needs no argument of its own, apart from limits.
func isPlain(a *core.Ask) bool { return a.Cost == 1 && !a.Peek && !isCharge(a) }

// appendCost appends the script's arguments for what a request costs.
func appendCost(args []any, a *core.Ask) []any {
	if isPlain(a) {
		return append(args, "1") // a constant takes no memory
	}
	if isCharge(a) {
		args = append(args, "!")
	}
	// Whatever exceeds every limit is refused alike; this keeps it exact in a double.
	n := min(a.Cost, core.MaxCounterRequests+1)
	if a.Peek {
		n = -n
	}
	return append(args, strconv.FormatInt(n, 10))
}
