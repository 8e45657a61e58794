package remember

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

// TestChanged: what is given back or charged ends all refusals of the client, and an
// answer to a question from before is not believed. Other clients keep theirs.
func TestChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := New()
		rule := all.Rule()
		other := "other"
		for shard, _ := all.shard("k"); ; other += "r" { // in the same shard, with news of its own
			s, hash := all.shard(other)
			_, own := all.shard("k")
			if s == shard && s.newsOf(hash) != s.newsOf(own) {
				break
			}
		}
		rule.Note("k", 1, time.Now(), refusalFor(time.Hour))
		rule.Note("k", 2, time.Now(), refusalFor(time.Hour))
		rule.Note(other, 1, time.Now(), refusalFor(time.Hour))
		sent := time.Now()
		time.Sleep(ms)
		all.Changed("k")
		check(t, rule, "k", 1, false)
		check(t, rule, "k", 2, false)
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

// TestWith: a refusal by limits of a request is not one by others, and ends with the next
// admission of the client, which other limits may allow.
func TestWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := watched("k")
		all := rule.refusals
		limits := func(n int64) []core.Limit { return []core.Limit{core.PerHour(n), core.PerDay(9)} }
		plan := rule.With(limits(5))
		plan.Note("k", 1, time.Now(), refusalFor(time.Hour))
		check(t, plan, "k", 1, true)
		check(t, rule.With(limits(5)), "k", 1, true)
		check(t, rule.With(limits(6)), "k", 1, false)
		check(t, rule, "k", 1, false)
		check(t, all.Rule().With(limits(5)), "k", 1, false)
		time.Sleep(ms)
		rule.Note("k", 1, time.Now(), core.Decision{Allowed: true})
		check(t, plan, "k", 1, false)
	})
}

// TestUnwatched: a shard is watched for as long as it has a refusal.
func TestUnwatched(t *testing.T) {
	drops := map[string]func(r Rule, cost int64){
		"dropped": func(r Rule, cost int64) { r.Note("k", cost, time.Now(), core.Decision{Allowed: true}) },
		"changed": func(r Rule, _ int64) { r.refusals.Changed("k") },
	}
	for name, drop := range drops {
		rule := New().Rule()
		s, _ := rule.refusals.shard("k")
		other := "a"
		for ; ; other += "a" {
			if own, _ := rule.refusals.shard(other); own == s {
				break
			}
		}
		rule.Note("k", 1, time.Now(), refusalFor(time.Hour))
		rule.Note(other, 1, time.Now(), refusalFor(time.Hour))
		if drop(rule, 1); !s.watched.Load() {
			t.Errorf("%s: the shard has a refusal and is not watched", name)
		}
		rule.Note(other, 1, time.Now(), core.Decision{Allowed: true})
		rule.Note("k", 1, time.Now(), refusalFor(time.Hour))
		if drop(rule, 1); s.watched.Load() {
			t.Errorf("%s: the shard has no refusal and is watched", name)
		}
	}
}
