package core

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sashlimit/sash/core/internal/eventlog"
	"github.com/sashlimit/sash/internal/notice"
)

// Notice tells an operator of something to mend.
type Notice struct {
	Code string // such as "large-log"; docs/diagnosis.md says of each what it means and what to do
	Name string // Config.Name
	Rule string // the rule's name, empty for the limiter itself
	Text string // what was seen, and what to do instead; escaped as in Go, and cut after 1,000 bytes
}

// checkQuiet returns an error if a code of Config.Quiet is none of this module.
func checkQuiet(codes []string) error {
	for _, code := range codes {
		if !slices.Contains(notice.Codes, code) {
			return fmt.Errorf("sash: Config.Quiet has the code %.66q: give some of %s",
				code, strings.Join(notice.Codes, ", "))
		}
	}
	return nil
}

// NoticeObserver is an [Observer] that takes notices too, of any goroutine.
type NoticeObserver interface {
	Observer
	Notice(ctx context.Context, n Notice)
}

// Notice tells the observer of the limiter, if it is a [NoticeObserver], what middleware or a store
// has seen: each code once for l and its copies by WithPolicy and WithLimits, whatever the text is, and
// no code of Config.Quiet. What a client sends must not be part of the code.
func (l *Limiter) Notice(ctx context.Context, code, text string) {
	if l.notices == nil || slices.Contains(l.config.Quiet, code) {
		return
	}
	if _, known := l.shared.noticed.LoadOrStore(code, nil); !known {
		text = eventlog.Escape(text, eventlog.MaxNotice)
		l.notices.Notice(ctx, Notice{Code: code, Name: l.config.Name, Rule: l.rule, Text: text})
	}
}

// shared holds the state that a limiter has in common with its copies by WithPolicy and WithLimits.
type shared struct {
	noticed sync.Map // the codes of the notices that an observer has heard of
}

// largeLog is the size of a log in bytes for which a CoarseLog is proposed.
const largeLog = 1_000_000

// begin says, at the first decision of the limiter, what is wrong with how it was made. A
// log that a program sets at its start has been set by then.
func (l *Limiter) begin(ctx context.Context) {
	if l.begun.Swap(true) {
		return
	}
	for _, limit := range l.limits {
		bytes := limit.Requests * limit.Algorithm.properties().unitBytes
		if bytes > largeLog {
			l.Notice(ctx, notice.LargeLog, fmt.Sprintf("limit %q keeps a log of up to %d requests for each client, "+
				"at least %.1f MB: use %v.Using(core.CoarseLog), which never admits more either, in some 600 bytes",
				limit.Name, limit.Requests, float64(bytes)/1e6, limit.code()))
			return
		}
	}
}
