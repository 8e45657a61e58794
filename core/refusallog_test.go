package core_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

// refusal is the event of a request that a limit has refused.
func refusal(key string) core.Event {
	return core.Event{Name: "api", Rule: "login", Label: "POST /login", Key: key, Decision: core.Decision{
		Source: core.SourceCounted, Limit: core.Per(5, 15*time.Minute), RetryAfter: 90*time.Second - 1,
	}}
}

// TestRefusalLog: the first refusal of a client is a line at once, and those that follow are a line a minute, also if
// no request comes any more. A client that is refused no more is forgotten.
func TestRefusalLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		o := core.LogRefusals(log.logger(), time.Minute)
		began := time.Now()
		observe := func(e core.Event) { o.Observe(t.Context(), e) }
		observe(refusal("user:ada"))
		const first = `level=INFO msg="sash: a client was refused" limiter=api rule=login `
		expectLines(t, "the first", log.take(), []string{first +
			`route="POST /login" client=user:ada limit=5/15m refused=1 first=2000-01-01T00:00:00`, "retry_after=1m30s"})
		time.Sleep(10 * time.Second)
		observe(refusal("user:ada"))
		observe(refusal("user:bob"))
		time.Sleep(5 * time.Second)
		last := refusal("user:ada")
		last.Decision.RetryAfter = core.Never
		observe(last)
		expectLines(t, "another client", log.take(), []string{"client=user:bob", "refused=1"})
		time.Sleep(time.Minute - time.Since(began) - 1)
		synctest.Wait()
		expectLines(t, "before the minute is over", log.take())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		expectLines(t, "after a minute", log.take(), []string{"client=user:ada limit=5/15m refused=2 first=",
			"first=2000-01-01T00:00:10", "last=2000-01-01T00:00:15", "retry_after=never"})
		observe(refusal("user:ada"))
		time.Sleep(time.Hour)
		synctest.Wait()
		expectLines(t, "after two", log.take(), []string{"client=user:ada", "refused=1"})
		observe(refusal("user:bob"))
		expectLines(t, "anew", log.take(), []string{"client=user:bob", "refused=1"})
	})
}

// TestRefusalLogEvents: a line is about what a limit has refused, by the store, by a fallback or in its shadow.
func TestRefusalLogEvents(t *testing.T) {
	var log lines
	o := core.LogRefusals(log.logger(), time.Hour)
	admitted, peek, failed, noKey := refusal("a"), refusal("b"), refusal("c"), refusal("")
	admitted.Decision.Allowed, peek.Peek = true, true
	failed.Decision = core.Decision{Source: core.SourcePolicy, Err: core.ErrStore}
	noKey.Decision = core.Decision{Err: errors.New("no key")}
	for _, e := range []core.Event{admitted, peek, failed, noKey} {
		o.Observe(t.Context(), e)
	}
	expectLines(t, "no refusals", log.take())

	fallback, shadow, other, long := refusal("d"), refusal("e"), refusal("e"), refusal("\x1b"+strings.Repeat("k", 9000))
	fallback.Decision.Source, fallback.Decision.Err = core.SourceFallback, core.ErrStore
	shadow.Shadow, other.Rule = true, "other"
	for _, e := range []core.Event{fallback, shadow, refusal("e"), other, long, refusal(long.Key + "l")} {
		o.Observe(t.Context(), e)
	}
	expectLines(t, "refusals", log.take(), []string{"client=d"}, []string{"client=e", "shadow=true"},
		[]string{"rule=login", "client=e"}, []string{"rule=other", "client=e"},
		[]string{`client=\x1bkkk`, "kkk..."}, []string{"kkk..."})
}

// TestRefusalLogIsBounded: a flood of new clients has 101 lines a minute; one of them counts whom the others leave out.
func TestRefusalLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		o := core.LogRefusals(log.logger(), time.Minute)
		total, beyond := 0, 0
		for minute := range 4 { // none is refused in the last
			for i := range 1000 * min(1, 3-minute) {
				o.Observe(context.Background(), refusal(fmt.Sprint(minute, " ", i)))
			}
			time.Sleep(time.Minute - 1)
			synctest.Wait()
			got := log.take()
			if len(got) > 101 {
				t.Errorf("minute %d: %d lines, want at most 101", minute, len(got))
			}
			for _, line := range got {
				n := 0
				_, count, _ := strings.Cut(line, " refused=")
				_, _ = fmt.Sscan(count, &n)
				total += n
				if strings.Contains(line, `msg="sash: clients beyond the 100 that have lines were refused"`) {
					beyond++
				}
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
		}
		if total != 3000 || beyond < 3 {
			t.Errorf("the lines count %d refusals, and %d are of clients beyond; want 3000 and 3", total, beyond)
		}
	})
}
