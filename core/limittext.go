package core

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sashlimit/sash/internal/errs"
)

// limitForm says in errors how a limit is written.
var limitForm = `write requests/window, such as "100/1m", then ` + algorithmNames(1) + ` or nothing, ` +
	`then "named" and a name if you like: "1000/24h counter named daily"`

// ParseLimit returns the limit that a text describes:
//
//	100/1m                      100 in any minute, by a SlidingLog
//	100/1m counter              by a SlidingCounter; "log" is allowed too
//	1000000/1h coarse           by a CoarseLog
//	200/200s bucket             by a Bucket: 200 at once, then one a second
//	1000/1d named daily         with a name; see [Limit.Named]
//	5/15m counter named per IP  the name is all that follows
//	10 per 15 minutes, 100/hour as other limiters have it
//
// A window is written as for [time.ParseDuration], without a sign, and may begin with whole days of
// 24 hours: 90s, 1h30m, 1d12h. Or it is a unit, maybe after a number: second, sec, s, minute, min, m,
// hour, h, day or d, in the plural too. Blanks separate the parts, and may stand around the slash.
// The limit is one that [New] takes; a default Name is left empty.
func ParseLimit(text string) (Limit, error) {
	l, err := parseParts(text)
	if err != nil {
		return Limit{}, fmt.Errorf("sash: the limit %.60q: %w: %s", text, err, limitForm)
	}
	if l, err = l.complete(); err != nil {
		return Limit{}, &errs.Worded{Words: fmt.Sprintf("the limit %.60q: ", text), Err: err}
	}
	return l.withoutDefaultName(), nil
}

// parseParts returns the limit of a text. What it allows is not checked.
func parseParts(text string) (l Limit, err error) {
	requests, rest, ok := cutPer(text)
	if !ok {
		return l, fmt.Errorf(`%.60q has neither a slash nor "per"`, text)
	}
	n, err := strconv.ParseUint(requests, 10, 63)
	if err != nil {
		return l, fmt.Errorf("%.60q is not a number of requests, such as 100", requests)
	}
	l.Requests = int64(n)
	window, rest := cutWord(rest)
	if isNumber(window) { // "15 minutes"
		unit, after := cutWord(rest)
		window, rest = window+" "+unit, after
	}
	if l.Window, err = parseWindow(window); err != nil {
		return l, err
	}
	word, name := cutWord(rest)
	if i := slices.IndexFunc(Algorithms(), func(a Algorithm) bool { return a.String() == word }); i >= 0 {
		l.Algorithm = Algorithms()[i]
		word, name = cutWord(name)
	}
	if word != "" && (word != "named" || name == "") {
		return l, fmt.Errorf(`%.60q is neither an algorithm (%s, in lower case) nor "named" and a name`,
			strings.TrimSpace(word+" "+name), algorithmNames(0))
	}
	l.Name = name
	return l, nil
}

// algorithmNames returns the names of the algorithms from a number on.
func algorithmNames(from int) string {
	var names []string
	for _, a := range algorithms[from:] {
		names = append(names, strconv.Quote(a.name))
	}
	return strings.Join(names, " or ")
}

const blanks = " \t\r\n"

// cutWord returns the first word of text, and what follows without blanks around it.
func cutWord(text string) (word, rest string) {
	text = strings.Trim(text, blanks)
	if i := strings.IndexAny(text, blanks); i >= 0 {
		return text[:i], strings.Trim(text[i:], blanks)
	}
	return text, ""
}

// cutPer returns what stands before the first slash or word "per" of text, and what follows it.
func cutPer(text string) (before, after string, ok bool) {
	if before, after = cutWord(text); !strings.Contains(before, "/") {
		if word, rest := cutWord(after); strings.EqualFold(word, "per") {
			return before, rest, true
		}
	}
	before, after, ok = strings.Cut(text, "/")
	return strings.Trim(before, blanks), after, ok
}

// isNumber reports whether text is digits alone.
func isNumber(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// units are the windows that a word names.
var units = map[string]time.Duration{
	"s": time.Second, "sec": time.Second, "second": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute,
	"h": time.Hour, "hour": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour,
}

// parseUnit returns the length of a window that is written as a number, or nothing for one, and a unit.
func parseUnit(text string) (window time.Duration, ok bool) {
	unit := strings.TrimLeft(text, "0123456789")
	number := text[:len(text)-len(unit)]
	unit = strings.ToLower(strings.Trim(unit, blanks))
	if len(unit) > 2 { // not "ms"
		unit = strings.TrimSuffix(unit, "s")
	}
	window, ok = units[unit]
	if number == "" {
		number = "1"
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || !ok {
		return 0, false
	}
	return time.Duration(min(n, int64(math.MaxInt64/window))) * window, true
}

// parseWindow returns the length of a window that is written as a duration, of days
// maybe, or by its unit.
func parseWindow(text string) (time.Duration, error) {
	if window, ok := parseUnit(text); ok {
		return window, nil
	}
	wrong := fmt.Errorf("%.60q is not a window, such as 90s, 15m, 1h30m, 24h, 1d or 15 minutes",
		strings.Trim(text, blanks))
	days, rest, hasDays := strings.Cut(text, "d")
	if !hasDays {
		days, rest = "0", text
	}
	n, err := strconv.ParseUint(days, 10, 9) // 511 days, more than MaxWindow
	if err != nil || strings.ContainsAny(rest, "+-") || rest == "" && !hasDays {
		return 0, wrong
	}
	if rest == "" {
		rest = "0"
	}
	window, err := time.ParseDuration(rest)
	if err != nil {
		return 0, wrong
	}
	return time.Duration(n)*24*time.Hour + window, nil
}

// withoutDefaultName returns the limit with an empty name if it has the one that an empty
// name means.
func (l Limit) withoutDefaultName() Limit {
	if l.Name == l.Window.String() {
		l.Name = ""
	}
	return l
}

// String returns the limit as [ParseLimit] reads it, such as "1000/24h counter named daily". Neither
// "log" nor the default name is written.
func (l Limit) String() string {
	window := l.Window.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(window, zero) {
			window = window[:len(window)-2]
		}
	}
	text := strconv.FormatInt(l.Requests, 10) + "/" + window
	if l.Algorithm != (Limit{}).Algorithm {
		text += " " + l.Algorithm.String()
	}
	switch name := l.withoutDefaultName().Name; {
	case name == "":
		return text
	case checkName("limit", name) != nil:
		return text + " named " + strconv.Quote(name)
	default:
		return text + " named " + name
	}
}

// MarshalText returns the text of [Limit.String], empty for the zero Limit.
func (l Limit) MarshalText() ([]byte, error) {
	if l == (Limit{}) {
		return []byte{}, nil
	}
	l, err := l.complete()
	if err != nil {
		return nil, err
	}
	return []byte(l.String()), nil
}

// UnmarshalText sets the limit to that of [ParseLimit]. "" is the zero Limit.
func (l *Limit) UnmarshalText(text []byte) error {
	var parsed Limit
	var err error
	if len(text) > 0 {
		parsed, err = ParseLimit(string(text))
	}
	if err == nil {
		*l = parsed
	}
	return err
}
