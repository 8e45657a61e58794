package core

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Shared returns what all limiters that share their counts with l in this process have in
// common under key: the result of the first call's create. It is for adapters, while
// they are made. It is kept as long as one of these limiters is.
func (l *Limiter) Shared(key any, create func() any) any {
	if known, ok := l.siblings.shared.Load(key); ok {
		return known
	}
	kept, _ := l.siblings.shared.LoadOrStore(key, create())
	return kept
}

// findings are what is to be said at the first decision of a limiter. A log that a
// program sets at its start has been set by then.
type findings struct {
	made    time.Time // when the limiter was made
	notices []Notice  // Code and Text alone
}

func (f *findings) add(code, text string) {
	f.notices = append(f.notices, Notice{Code: code, Text: text})
}

// drop drops the findings of a code. It is called before the limiter is used.
func (f *findings) drop(code string) {
	f.notices = slices.DeleteFunc(f.notices, func(n Notice) bool { return n.Code == code })
}

// largeLog is the size of a log in bytes for which a counter is proposed.
const largeLog = 1_000_000

// examine looks for mistakes in how the limiter was made. The limits must have been
// bound; the limiter has not decided anything.
func (l *Limiter) examine() {
	l.findings.made = time.Now()
	differs, other := l.siblings.note(l.limits)
	if differs != nil && !l.unnamed() { // of limiters without names, New says more
		l.findings.add(NoticeOtherNumbers, fmt.Sprintf("two limiters of this name and rule share the counts of "+
			"limit %q: one allows %d requests, the other one %d, and each counts what the other one admits; "+
			"give one of them another Config.Name, its rule another name, or the limit another name with Named; "+
			"if the limit was changed on purpose, all is well", differs.Name, other, differs.Requests))
	}
	for _, limit := range l.limits {
		bytes := limit.Requests * limit.Algorithm.properties().unitBytes
		if bytes <= largeLog {
			continue
		}
		l.findings.add(NoticeLargeLog, fmt.Sprintf("limit %q keeps a log of up to %d requests for each client, "+
			"at least %.1f MB: unless it must be exact, use %v.Using(core.SlidingCounter), which keeps two numbers",
			limit.Name, limit.Requests, float64(bytes)/1e6, limit.code()))
		break
	}
	l.begun.Store(!l.hearsNotices()) // then nothing is to be said
}

// examineNew is for what [New] has made, in addition to examine.
func (l *Limiter) examineNew() {
	if l.unnamed() && l.siblings.noteUnnamed() > 1 {
		l.findings.add(NoticeUnnamed, "several limiters without a name are on one store: where their windows are "+
			"the same, each counts what the other ones admit, and no log tells them apart; "+
			"give each a Config.Name, or make one limiter and give its parts names with Rule")
	}
}

// unnamed reports whether neither the limiter nor its rule has a name.
func (l *Limiter) unnamed() bool { return l.config.Name == "" && l.rule == "" }

// begin says, at the first decision of the limiter, what was found when it was made.
func (l *Limiter) begin(ctx context.Context) {
	if l.begun.Swap(true) {
		return
	}
	for _, n := range l.findings.notices {
		l.Notice(ctx, n.Code, n.Text)
	}
	if !l.Hears(NoticeLimiterPerRequest) {
		return
	}
	if allLimiters.noteUse(limiterID{l.config.Name, l.rule}, l.findings.made, time.Now()) {
		l.Notice(ctx, NoticeLimiterPerRequest, fmt.Sprintf("%d limiters of this name and rule were made within a "+
			"minute, each just before its first request: is one made for every request? On a store of its own it "+
			"limits nothing, and on a common one it costs more than its decision; make the limiter, its rules "+
			"and its middleware once, when the program starts", manyUsed))
	}
}
