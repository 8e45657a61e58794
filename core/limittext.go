package core

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxLimitText is a length in bytes that no text of a limit needs to exceed.
const maxLimitText = 200

// limitForm says in errors how a limit is written.
const limitForm = `write requests/window, such as "100/1m", then "counter" for a SlidingCounter, ` +
	`then the name if it has one: "1000/24h counter daily"`

// ParseLimit returns the limit that a text describes:
//
//	100/1m                  100 in any minute, by a SlidingLog
//	100/1m counter          by a SlidingCounter; "log" is allowed too
//	1000/1d daily           named daily; see [Limit.Named]
//	5/15m counter "per IP"  a name with blanks, or one that is that of an algorithm, stands in quotes
//
// A window is written as for [time.ParseDuration], without a sign, and may begin with whole
// days of 24 hours: 90s, 15m, 1h30m, 24h, 1d, 1d12h. Blanks separate the parts.
//
// The limit is one that [New] takes. Its Name is empty if none is given, or the default
// one. The error says what was given and what is allowed.
//
// A *Limit is an [encoding.TextUnmarshaler] by the same rules, so that flags
// ([flag.TextVar]), JSON and YAML have limits as text.
func ParseLimit(text string) (Limit, error) {
	if len(text) > maxLimitText {
		return Limit{}, fmt.Errorf("sash: the limit %.20q... has %d bytes, of %d allowed: %s",
			text, len(text), maxLimitText, limitForm)
	}
	l, err := parseParts(text)
	if err != nil {
		return Limit{}, fmt.Errorf("sash: the limit %.60q: %w: %s", text, err, limitForm)
	}
	if l, err = l.complete(); err != nil {
		return Limit{}, &wordedError{fmt.Sprintf("the limit %.60q: ", text), err}
	}
	return l.withoutDefaultName(), nil
}

// parseParts returns the limit of a text. What it allows is not checked.
func parseParts(text string) (l Limit, err error) {
	quantity, rest := cutWord(text)
	requests, window, ok := strings.Cut(quantity, "/")
	if !ok {
		return l, fmt.Errorf("%.60q has no slash", quantity)
	}
	n, err := strconv.ParseUint(requests, 10, 63)
	if err != nil {
		return l, fmt.Errorf("%.60q is not a number of requests, such as 100", requests)
	}
	l.Requests = int64(n)
	if l.Window, err = parseWindow(window); err != nil {
		return l, err
	}
	if word, after := cutWord(rest); word != "" {
		for _, a := range Algorithms() {
			if word == a.String() {
				l.Algorithm, rest = a, after
			}
		}
	}
	l.Name, err = parseLimitName(rest)
	return l, err
}

// cutWord returns the first word of text, and what follows without blanks around it.
func cutWord(text string) (word, rest string) {
	const blanks = " \t\r\n"
	text = strings.Trim(text, blanks)
	if i := strings.IndexAny(text, blanks); i >= 0 {
		return text[:i], strings.Trim(text[i:], blanks)
	}
	return text, ""
}

// parseWindow returns the length of a window that is written as a duration, of days
// maybe.
func parseWindow(text string) (time.Duration, error) {
	wrong := fmt.Errorf("%.60q is not a window, such as 90s, 15m, 1h30m, 24h or 1d", text)
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

// parseLimitName returns the name that stands at the end of a limit's text, or an error
// if that is not one.
func parseLimitName(text string) (string, error) {
	inner, quoted := strings.CutPrefix(text, `"`)
	if quoted {
		name, closed := strings.CutSuffix(inner, `"`)
		if !closed || name == "" || strings.Contains(name, `"`) {
			return "", fmt.Errorf("%.60q is not a name in quotes", text)
		}
		return name, nil
	}
	if text != "" && quotedName(text) {
		return "", fmt.Errorf("%.60q is neither an algorithm (log or counter, in lower case and before the name) "+
			"nor one word: a name that has blanks or is that of an algorithm stands in quotes", text)
	}
	return text, nil
}

// quotedName reports whether a limit's name stands in quotes, so that it is taken neither for
// two words nor for an algorithm.
func quotedName(name string) bool {
	for _, a := range Algorithms() {
		if strings.EqualFold(name, a.String()) {
			return true
		}
	}
	return strings.ContainsAny(name, " \t\r\n")
}

// withoutDefaultName returns a complete limit with an empty name if it has the one that an
// empty name means.
func (l Limit) withoutDefaultName() Limit {
	if l.Name == l.Window.String() {
		l.Name = ""
	}
	return l
}

// MarshalText implements [encoding.TextMarshaler]. It returns the limit as [ParseLimit]
// reads it, in its shortest form with a window in hours, minutes and seconds:
// "1000/24h counter daily". Neither a SlidingLog nor the default name is written. The text
// of the zero Limit is empty; another limit that [New] would refuse is an error.
func (l Limit) MarshalText() ([]byte, error) {
	if l == (Limit{}) {
		return []byte{}, nil
	}
	l, err := l.complete()
	if err != nil {
		return nil, err
	}
	l = l.withoutDefaultName()
	window := l.Window.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(window, zero) {
			window = window[:len(window)-2]
		}
	}
	text := strconv.FormatInt(l.Requests, 10) + "/" + window
	if l.Algorithm != SlidingLog {
		text += " " + l.Algorithm.String()
	}
	switch {
	case l.Name == "":
	case quotedName(l.Name):
		text += ` "` + l.Name + `"`
	default:
		text += " " + l.Name
	}
	return []byte(text), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler]: it sets the limit to the one that
// [ParseLimit] returns. An empty text is the zero Limit, which New refuses. The limit stays
// as it was if there is an error.
func (l *Limit) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*l = Limit{}
		return nil
	}
	parsed, err := ParseLimit(string(text))
	if err != nil {
		return err
	}
	*l = parsed
	return nil
}
