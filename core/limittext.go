package core

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sashlimit/sash/internal/errs"
)

// limitForm says in errors how a limit is written.
var limitForm = fmt.Sprintf(`write requests/window, such as "100/1m", then one of %v or nothing, `+
	`then "named" and a name if you like: "1000/24h counter named daily"`, Algorithms())

// ParseLimit returns the limit that a text describes:
//
//	100/1m                      100 in any minute, by a SlidingLog
//	100/1m counter              by a SlidingCounter; "log" is allowed too
//	1000000/1h coarse           by a CoarseLog
//	200/200s bucket             by a Bucket: 200 at once, then one a second
//	1000/24h named daily        with a name; see [Limit.Named]
//	5/15m counter named per IP  the name is the rest of the text
//
// A window is written as for [time.ParseDuration], without a sign. Blanks separate the parts. The limit
// is one that [New] takes; a default Name is left empty.
func ParseLimit(text string) (Limit, error) {
	l, err := parseParts(text)
	if err != nil {
		return Limit{}, fmt.Errorf("sash: the limit %.60q: %w: %s", text, err, limitForm)
	}
	if l, err = l.complete(); err != nil {
		return Limit{}, &errs.Error{Prefix: fmt.Sprintf("the limit %.60q: ", text), Err: err}
	}
	return l.withoutDefaultName(), nil
}

// parseParts returns the limit of a text. Its numbers and its name are not checked.
func parseParts(text string) (l Limit, err error) {
	rate, rest := cutWord(text)
	requests, window, ok := strings.Cut(rate, "/")
	if !ok {
		return l, fmt.Errorf("%.60q has no slash", rate)
	}
	n, err := strconv.ParseUint(requests, 10, 63)
	if err != nil {
		return l, fmt.Errorf("%.60q is not a number of requests, such as 100", requests)
	}
	l.Requests = int64(n)
	if l.Window, err = time.ParseDuration(window); err != nil || strings.ContainsAny(window, "+-") {
		return l, fmt.Errorf("%.60q is not a window, such as 90s, 15m, 1h30m or 24h", window)
	}
	word, name := cutWord(rest)
	if i := slices.IndexFunc(Algorithms(), func(a Algorithm) bool { return a.String() == word }); i >= 0 {
		l.Algorithm = Algorithms()[i]
		word, name = cutWord(name)
	}
	if word != "" && (word != "named" || name == "") {
		return l, fmt.Errorf(`%.60q is neither an algorithm nor "named" and a name`, strings.TrimSpace(word+" "+name))
	}
	l.Name = name
	return l, nil
}

// cutWord returns the first word of text, and the rest without blanks around it.
func cutWord(text string) (word, rest string) {
	text = strings.TrimSpace(text)
	end := strings.IndexAny(text+" ", " \t\r\n")
	return text[:end], strings.TrimSpace(text[end:])
}

// withoutDefaultName returns the limit with an empty name instead of the default one.
func (l Limit) withoutDefaultName() Limit {
	if l.Name == l.defaultName() {
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
	if name := l.withoutDefaultName().Name; checkName("limit", name) != nil {
		text += " named " + strconv.Quote(name)
	} else if name != "" {
		text += " named " + name
	}
	return text
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
	if len(text) == 0 {
		*l = Limit{}
		return nil
	}
	parsed, err := ParseLimit(string(text))
	if err == nil {
		*l = parsed
	}
	return err
}
