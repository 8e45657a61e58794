package core

import "context"

// Notice is something that a limiter or an adapter has seen and that its operator
// should know, such as a mistake in how it is used.
type Notice struct {
	Code string // a short constant, for searching
	Name string // Config.Name
	Rule string // the rule's name, empty for the limiter itself
	Text string // what was seen, and what to do instead
}

// NoticeObserver is an [Observer] that hears of notices too. That of [LogErrors], which
// is the default, writes them to its log. Notice must be safe for concurrent use.
type NoticeObserver interface {
	Observer
	Notice(ctx context.Context, n Notice)
}

// Notice tells the observer of the limiter, if it is a [NoticeObserver], what was seen
// at a request: each code once, whatever the text is. The code is a constant of the
// caller's; what a client sends must not be part of it.
func (l *Limiter) Notice(ctx context.Context, code, text string) {
	o, ok := l.config.Observer.(NoticeObserver)
	if !ok {
		return
	}
	if _, known := l.noticed.LoadOrStore(code, nil); !known {
		o.Notice(ctx, Notice{Code: code, Name: l.config.Name, Rule: l.rule, Text: text})
	}
}
