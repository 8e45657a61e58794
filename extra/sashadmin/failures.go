package sashadmin

import (
	"context"
	"sync"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/errs"
)

// Failures is a core.Observer that stores the failures of limiters' stores, for Config.Failures. The zero value is
// ready for use. It is safe for concurrent use.
type Failures struct {
	mu     sync.Mutex // guards byRule
	byRule map[ruleID]failures
}

type ruleID struct{ limiter, rule string }

// maxFailing is the largest number of rules with stored failures.
const maxFailing = 1000

// runGap is the time without failures that ends a run of failures.
const runGap = time.Minute

// failures holds the failures of a rule's store in this process.
type failures struct {
	Failing bool      `json:"failing"` // within the last minute
	Decided uint64    `json:"decided_by_policy"`
	Since   time.Time `json:"since"` // start of the latest run of failures
	Latest  time.Time `json:"latest"`
	Error   string    `json:"error"`
	Hint    string    `json:"hint,omitempty"`
}

// Observe implements core.Observer.
func (f *Failures) Observe(_ context.Context, e core.Event) {
	if s := e.Decision.Source; s != core.SourcePolicy && s != core.SourceFallback {
		return
	}
	now, id := time.Now().UTC(), ruleID{e.Name, e.Rule}
	f.mu.Lock()
	defer f.mu.Unlock()
	seen, known := f.byRule[id]
	if f.byRule == nil || !known && len(f.byRule) >= maxFailing {
		f.byRule = map[ruleID]failures{}
	}
	if now.Sub(seen.Latest) >= runGap {
		seen.Since = now
	}
	seen.Latest, seen.Error, seen.Hint = now, e.Decision.Err.Error(), errs.HintOf(e.Decision.Err)
	seen.Decided++
	f.byRule[id] = seen
}

// forLimiter returns the failures of a limiter's store, or nil.
func (f *Failures) forLimiter(l *core.Limiter) *failures {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	seen, known := f.byRule[ruleID{l.Name(), l.RuleName()}]
	if !known {
		return nil
	}
	seen.Failing = time.Since(seen.Latest) < runGap
	return &seen
}
