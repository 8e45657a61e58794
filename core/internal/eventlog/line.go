// Package eventlog writes problems and refusals to a slog.Logger, a bounded number of lines of each.
package eventlog

import (
	"log/slog"
	"reflect"
	"strconv"
	"strings"
)

// Source names the limiter and the rule of an event, and its route if it is known.
type Source struct{ Limiter, Rule, Route string }

// withoutRoute returns the source as a key: all routes of a rule share lines.
func (s Source) withoutRoute() Source { return Source{Limiter: s.Limiter, Rule: s.Rule} }

// attrs returns the attributes with which each line begins.
func (s Source) attrs() []slog.Attr {
	return appendNonZero([]slog.Attr{slog.String("limiter", s.Limiter)},
		slog.String("rule", s.Rule), slog.String("route", Escape(s.Route, maxText)))
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

const (
	maxText = 500 // bytes of an error or a route
	maxKey  = 96  // bytes of a key
)

// MaxNotice is the maximum number of bytes of a notice and of a hint.
const MaxNotice = 1000

// Escape returns the first bytes of text, at most limit, with what cannot be printed escaped as in Go. Handlers of
// slog put it in quotes where it needs them.
func Escape(text string, limit int) string {
	rest := ""
	if len(text) > limit {
		text, rest = text[:limit], "..."
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`) + rest
}
