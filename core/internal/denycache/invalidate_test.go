package denycache

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestInvalidate: a return, a charge and a reset end all refusals of the client under all rules, and the answer to an
// earlier request is not cached. Other clients keep theirs.
func TestInvalidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := New()
		rule, another := all.Rule(bound), all.Rule(bound)
		other := "other"
		for shard, own := rule.shard("k"); ; other += "r" { // in the same shard, with changes of its own
			s, hash := rule.shard(other)
			if s == shard && s.changed(hash) != s.changed(own) {
				break
			}
		}
		rule.Record("k", 1, time.Now(), refusalFor(time.Hour))
		rule.Record("k", 2, time.Now(), refusalFor(time.Hour))
		another.Record("k", 1, time.Now(), refusalFor(time.Hour))
		rule.Record(other, 1, time.Now(), refusalFor(time.Hour))
		sent := time.Now()
		time.Sleep(ms)
		rule.Invalidate("k")
		check(t, rule, "k", 1, false)
		check(t, rule, "k", 2, false)
		check(t, another, "k", 1, false)
		check(t, rule, other, 1, true)
		for _, sent := range []time.Time{sent, time.Now()} {
			rule.Record("k", 1, sent, refusalFor(time.Hour))
			check(t, rule, "k", 1, false)
		}
		time.Sleep(ms)
		rule.Record("k", 1, time.Now(), refusalFor(time.Hour))
		check(t, rule, "k", 1, true)
		rule.Invalidate("k") // at the moment of the refused request
		check(t, rule, "k", 1, false)
	})
}
