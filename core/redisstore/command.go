package redisstore

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"

	"github.com/sashlimit/sash/core"
)

// A Redis key is
//
//	prefix:{name/rule/client}:l1m0s
//	prefix:{name/rule/client}:c1h0m0s:hourly
//
// All limits of a client under a rule share what stands in braces, and so the
// hash slot on a cluster. Behind it: the algorithm's letter (see formatOf), the
// window, and the limit's name if it is not the window's.

// maxClient is the length up to which a client's name stands in the key as it
// is, escaped. A longer one is replaced by its hash.
const maxClient = 64

// appendKeys appends the keys of a client, a limit each, to text, and where each of them ends to ends. Different names,
// rules and clients never have the same braces: '/' and '#' are escaped where they would be mistaken for the separator
// or for the mark of a hash.
func (l *ledger) appendKeys(text []byte, ends []int, client string) ([]byte, []int) {
	start := len(text)
	text = append(append(text, l.store.prefix...), ":{"...)
	text = append(appendEscaped(text, l.rule.Name, '/'), '/')
	text = append(appendEscaped(text, l.rule.Rule, '/'), '/')
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
	for i, suffix := range l.suffixes {
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
func (l *ledger) keys(dst []any, client string) []any {
	var few [192]byte
	var some [4]int
	text, ends := l.appendKeys(few[:0], some[:0], client)
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
	s := ":" + formatOf(l.Algorithm).letter + l.Window.String()
	if l.Name != l.Window.String() {
		s += ":" + l.Name
	}
	return s
}

// command returns the script's call for one request.
func (l *ledger) command(a *core.Ask) []any {
	args := make([]any, 0, 4+len(l.rule.Limits)+len(l.args))
	args = append(args, "evalsha", l.script.sha, l.numkeys)
	args = append(l.keys(args, a.Key), l.args...)
	if isPlain(a) {
		return args
	}
	return appendCost(args, a)
}

// returnCommand returns the call of the script s for a Return.
func (l *ledger) returnCommand(s script, back core.Refund) []any {
	args := make([]any, 0, 5+3*len(l.rule.Limits))
	args = l.keys(append(args, "evalsha", s.sha, l.numkeys), back.Key)
	args = append(args, strconv.FormatInt(back.At.UnixMicro(), 10), strconv.FormatInt(back.Units, 10))
	for _, limit := range l.rule.Limits {
		args = append(args, formatOf(limit.Algorithm).steps, micros(limit.Window))
	}
	return args
}

// firstKey returns the first key of a script's call. All keys of a call are on
// one server.
func firstKey(args []any) string { return args[3].(string) }

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
