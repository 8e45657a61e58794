package core

import (
	"log/slog"
	"reflect"
	"strconv"
	"strings"
)

// Bounds of the texts in a line of a log, in bytes.
const (
	maxLogText = 500  // of an error or a route
	maxLogKey  = 96   // of a key
	maxNotice  = 1000 // of a notice or a hint
)

// ruleName identifies a rule in a log. All routes of a rule share lines.
type ruleName struct{ limiter, rule string }

// logAttrs returns the attributes with which each line about an event begins.
func (e *Event) logAttrs() []slog.Attr {
	return appendNonZero([]slog.Attr{slog.String("limiter", e.Name)},
		slog.String("rule", e.Rule), slog.String("route", escape(e.Label, maxLogText)))
}

// appendNonZero appends the attributes of more whose values are not zero.
func appendNonZero(attrs []slog.Attr, more ...slog.Attr) []slog.Attr {
	for _, a := range more {
		if !reflect.ValueOf(a.Value.Any()).IsZero() {
			attrs = append(attrs, a)
		}
	}
	return attrs
}

// escape returns the first bytes of text, at most limit, with unprintable characters escaped as in Go. Handlers of
// slog put it in quotes where it needs them.
func escape(text string, limit int) string {
	rest := ""
	if len(text) > limit {
		text, rest = text[:limit], "..."
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`) + rest
}
