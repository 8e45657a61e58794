package denycache

import (
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
)

const ms = time.Millisecond

var bound = core.Binding{Name: "api", Limits: []core.Limit{core.PerHour(1)}}

// refusalFor returns the refusal of a client with nothing remaining.
func refusalFor(after time.Duration) core.Decision {
	return core.Decision{Limit: core.PerHour(1), ResetAfter: after, RetryAfter: after, At: time.Unix(1_790_000_000, 0)}
}

// found returns the cached refusal, without its source, which it checks.
func (r Rule) found(client string, cost int64) (answer core.Decision, ok bool) {
	ok = r.Lookup(client, cost, &answer, true)
	ok = ok && answer.Source == core.SourceCached
	answer.Source = core.SourceNone
	return answer, ok
}

// check fails the test unless a refusal is cached or not, as wanted.
func check(t *testing.T, r Rule, client string, cost int64, want bool) (answer core.Decision) {
	t.Helper()
	answer, ok := r.found(client, cost)
	if ok != want {
		t.Errorf("cost %d: %+v, cached: %v, want %v", cost, answer, ok, want)
	}
	return answer
}
