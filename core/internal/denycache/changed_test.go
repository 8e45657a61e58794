package denycache

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestChanged: what is given back, charged or reset ends all refusals of the client under all rules, and an answer to a
// question from before is not believed. Other clients keep theirs.
func TestChanged(t *testing.T) {
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
		rule.Note("k", 1, time.Now(), refusalFor(time.Hour))
		rule.Note("k", 2, time.Now(), refusalFor(time.Hour))
		another.Note("k", 1, time.Now(), refusalFor(time.Hour))
		rule.Note(other, 1, time.Now(), refusalFor(time.Hour))
		sent := time.Now()
		time.Sleep(ms)
		rule.Changed("k")
		check(t, rule, "k", 1, false)
		check(t, rule, "k", 2, false)
		check(t, another, "k", 1, false)
		check(t, rule, other, 1, true)
		for _, asked := range []time.Time{sent, time.Now()} {
			rule.Note("k", 1, asked, refusalFor(time.Hour))
			check(t, rule, "k", 1, false)
		}
		time.Sleep(ms)
		rule.Note("k", 1, time.Now(), refusalFor(time.Hour))
		check(t, rule, "k", 1, true)
	})
}
