// Package script makes the keys, scripts and calls for the requests of a rule, and reads the replies of Redis. It knows
// no connection: package server sends the calls.
//
//	rule.go    keys, and the calls for requests
//	script.go  the scripts, rendered from decide.lua and return.lua
//	reply.go   a reply, read into decisions
//	format.go  what of Redis stands in a reply, and what an algorithm is
//	log.go     an algorithm, with log.lua; counter, coarse and bucket are others
package script

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strconv"
	"time"

	"github.com/sashlimit/sash/core"
)

// A Redis key is
//
//	prefix:{name/rule/client}:l1m0s
//	prefix:{name/rule/client}:c1h0m0s:hourly
//
// All limits of a client under a rule share what stands in braces, and so the hash slot on a cluster. Behind it: the
// algorithm's letter, the window, and the limit's name if it is not the window's. A bucket has the name alone,
// b:bucket.

// Rule makes the keys and calls for the requests of one rule.
type Rule struct {
	core.Binding
	Script Script
	Args   []any // of the script, for all limits
	Delay  int64 // how far ahead of the server's clock requests are counted, in microseconds

	prefix   string
	numkeys  any      // the number of limits, as an argument
	suffixes []string // of the keys, a limit each
}

// New returns the Rule for keys under prefix; s is the script that Decide returned.
func New(prefix string, rule core.Binding, s Script) Rule {
	r := Rule{
		Binding: rule, Script: s, Args: limitArgs(rule.Limits), prefix: prefix, numkeys: strconv.Itoa(len(rule.Limits)),
	}
	for _, limit := range rule.Limits {
		r.suffixes = append(r.suffixes, suffix(limit))
	}
	return r
}

// With returns r with other limits on the same counts, and with requests counted so far ahead, by the script s.
func (r Rule) With(limits []core.Limit, delay time.Duration, s Script) Rule {
	r.Limits, r.Script, r.Args, r.Delay = slices.Clone(limits), s, limitArgs(limits), delay.Microseconds()
	if delay > 0 {
		r.Args = append(r.Args, micros(delay))
	}
	return r
}

// Has reports whether r has these limits, and counts requests so far ahead.
func (r *Rule) Has(limits []core.Limit, ahead time.Duration) bool {
	return r.Delay == ahead.Microseconds() && slices.Equal(r.Limits, limits)
}

// maxClient is the length up to which a client's name stands in the key as it
// is, escaped. A longer one is replaced by its hash.
const maxClient = 64

// appendKeys appends the keys of a client, a limit each, to text, and where each of them ends to ends. Different names,
// rules and clients never have the same braces: '/' and '#' are escaped where they would be mistaken for the separator
// or for the mark of a hash.
func (r *Rule) appendKeys(text []byte, ends []int, client string) ([]byte, []int) {
	start := len(text)
	text = append(append(text, r.prefix...), ":{"...)
	text = append(appendEscaped(text, r.Name, '/'), '/')
	text = append(appendEscaped(text, r.Rule, '/'), '/')
	named := len(text)
	if len(client) <= maxClient {
		text = appendEscaped(text, client, '#')
	}
	if n := len(text) - named; n == 0 || n > maxClient {
		sum := sha256.Sum256([]byte(client))
		text = base64.RawURLEncoding.AppendEncode(append(text[:named], '#'), sum[:])
	}
	text = append(text, '}')
	tagged := len(text)
	for i, suffix := range r.suffixes {
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

// Keys appends the keys of a client, a limit each.
func (r *Rule) Keys(dst []any, client string) []any {
	var buffer [192]byte
	var bounds [4]int
	text, ends := r.appendKeys(buffer[:0], bounds[:0], client)
	return cut(dst, string(text), ends)
}

// appendEscaped writes s with everything but visible ASCII, and what has a
// meaning in a key, as %XX.
func appendEscaped(dst []byte, s string, also byte) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		switch c := s[i]; {
		case c <= ' ' || c > '~' || c == '%' || c == '{' || c == '}' || c == also:
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// suffix returns what stands in a key behind the braces.
func suffix(l core.Limit) string {
	s := ":" + algorithmOf(l.Algorithm).letter
	if l.Algorithm.IsLinear() {
		return s + ":" + l.Name
	}
	if s += l.Window.String(); l.Name != l.Window.String() {
		s += ":" + l.Name
	}
	return s
}

// Request is a request to decide by a rule.
type Request struct {
	Rule *Rule
	*core.Ask
}

// maxStackRequests is the number of requests whose keys fit into buffers on the stack: a batch has no more.
const maxStackRequests = 32

// EvalArgs returns the call for requests of one script. Its memory is not used again: a call that goes on after its
// deadline may still read it.
func EvalArgs(requests []Request) []any {
	first := requests[0].Rule
	args := make([]any, 3, 3+len(requests)*(len(first.Limits)+len(first.Args)+2))
	var keys [64 * maxStackRequests]byte
	var ends [maxStackRequests]int
	text, end := keys[:0], ends[:0]
	for _, q := range requests {
		text, end = q.Rule.appendKeys(text, end, q.Key)
	}
	args = cut(args, string(text), end)
	args[0], args[1], args[2] = "evalsha", first.Script.SHA, first.numkeys
	if len(requests) > 1 {
		args[2] = strconv.Itoa(len(args) - 3)
	}
	args = append(args, first.Args...)
	if slices.ContainsFunc(requests, func(q Request) bool { return q.Rule != first || !isPlain(q.Ask) }) {
		args = appendCosts(args, requests)
	}
	return args
}

// appendCosts appends the costs of the requests, and before each change of the rule the limits of the next one.
func appendCosts(args []any, requests []Request) []any {
	for i, q := range requests {
		if i > 0 && q.Rule != requests[i-1].Rule {
			args = append(append(args, "+"), q.Rule.Args...)
		}
		args = appendCost(args, q.Ask)
	}
	return args
}

// ReturnArgs returns the call of the script s for a Return.
func (r *Rule) ReturnArgs(s Script, back core.Refund) []any {
	args := make([]any, 0, 6+4*len(r.Limits))
	args = r.Keys(append(args, "evalsha", s.SHA, r.numkeys), back.Key)
	args = append(args, strconv.FormatInt(back.At.UnixMicro(), 10),
		strconv.FormatInt(back.Cost, 10), strconv.FormatInt(back.Units, 10))
	limits := back.Limits
	if limits == nil {
		limits = r.Limits
	}
	for _, l := range limits {
		args = append(args, algorithmOf(l.Algorithm).steps, micros(l.Window), strconv.FormatInt(l.Requests, 10))
	}
	return args
}

// isCharge reports whether a request is counted whatever the limits say.
func isCharge(a *core.Ask) bool { return a.Override != nil && a.Override.Charge }

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
