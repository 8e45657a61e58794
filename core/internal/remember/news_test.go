package remember

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

// TestSomethingRemains: a refusal where something remains is remembered until an admission at another cost.
func TestSomethingRemains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := watched("k")
		rule.Note("k", 3, time.Now(), refusalWith(2))
		if got := check(t, rule, "k", 3, true); got != refusalWith(2) {
			t.Errorf("%+v", got)
		}
		rule.Note("k", 2, time.Now(), core.Decision{Allowed: true})
		check(t, rule, "k", 3, false)
	})
}

// TestWatched: admissions are not noted before there is a refusal in the client's shard. So a refusal that was asked
// for before then is not remembered if an admission ends it, and the next one is.
func TestWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, noted := range map[string]core.Decision{
			"something remains": refusalWith(2),
			"nothing remains":   refusalFor(time.Hour),
		} {
			rule := New().Rule()
			early := time.Now()
			time.Sleep(ms)
			rule.Note("k", 2, time.Now(), core.Decision{Allowed: true}) // the refusal may not know of it
			time.Sleep(ms)
			rule.Note("k", 4, early, noted)
			rule.Note("k", 3, early, refusalWith(2))
			if _, ok := rule.found("k", 3); ok {
				t.Errorf("%s: a refusal from before the admission is remembered", name)
			}
			time.Sleep(ms)
			rule.Note("k", 3, time.Now(), refusalWith(2))
			if _, ok := rule.found("k", 3); !ok {
				t.Errorf("%s: the next refusal is not remembered", name)
			}
		}
	})
}

// TestWatchedSince: at the moment from which admissions are noted, one may have been told before. An answer from then
// is not remembered if an admission ends it, nor is an older one of the same request.
func TestWatchedSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := New().Rule()
		rule.Note("k", 3, time.Now(), refusalWith(2))
		check(t, rule, "k", 3, false)
		rule.Note("k", 3, time.Now(), refusalFor(time.Hour))
		check(t, rule, "k", 3, true)
		rule.Note("k", 3, time.Now(), refusalWith(2))
		check(t, rule, "k", 3, false)
	})
}

// TestOtherNumbers: a refusal with other numbers, asked for after the one before came, ends that one, and is remembered
// itself. If it was asked for by the time the one before came, neither is.
func TestOtherNumbers(t *testing.T) {
	for later, want := range map[time.Duration]bool{0: false, 1: true, 2: true} {
		synctest.Test(t, func(t *testing.T) {
			rule := watched("k")
			rule.Note("k", 4, time.Now(), refusalWith(3))
			check(t, rule, "k", 4, true)
			time.Sleep(later)
			rule.Note("k", 5, time.Now(), refusalWith(2))
			check(t, rule, "k", 4, false)
			check(t, rule, "k", 5, want)
		})
	}
}

// TestOthers: what is remembered of a client for whom something remains stands while others are admitted.
func TestOthers(t *testing.T) {
	const others = 1000
	rule := watched("k")
	all := rule.refusals
	rule.Note("k", 3, time.Now(), refusalWith(2))
	shard, _ := all.shard("k")
	asked := 0
	for i, n := 0, 0; n < others; i++ {
		other := fmt.Sprint(i)
		if s, _ := all.shard(other); s != shard {
			continue
		}
		n++
		rule.Note(other, 1, time.Now(), core.Decision{Allowed: true})
		if _, ok := rule.found("k", 3); !ok {
			asked++
			rule.Note("k", 3, time.Now(), refusalWith(2))
		}
	}
	if asked > others/20 {
		t.Errorf("asked %d times while %d others were admitted, want at most %d", asked, others, others/20)
	}
}

// TestNotContradicted: a refusal with something remaining is not remembered beside an answer that may know of more
// admissions, in whichever order the answers come.
func TestNotContradicted(t *testing.T) {
	elsewhere := refusalWith(3)
	elsewhere.Limit = core.PerHour(1).Named("another")
	raised := refusalWith(3) // as many counted units more as the limit is higher
	raised.Limit.Requests++
	const earlier, own, other = 0, 1, 2 // by which rule the other answer is, and that it was asked for later
	for name, c := range map[string]struct {
		answer core.Decision // came before the refusal that is noted
		by     int
		cost   int64
		want   int64 // what remains by the refusal that is remembered, or -1
	}{
		"an admission":                          {core.Decision{Allowed: true}, own, 1, -1},
		"an admission by another rule":          {core.Decision{Allowed: true}, other, 1, -1},
		"a look at what is left":                {core.Decision{Allowed: true}, own, 0, -1},
		"a refusal with the same numbers":       {refusalWith(3), own, 5, 3},
		"a refusal with less":                   {refusalWith(2), own, 5, -1},
		"a refusal of the same cost with less":  {refusalWith(2), own, 4, -1},
		"a refusal with nothing":                {refusalWith(0), own, 5, -1},
		"a refusal by another limit":            {elsewhere, own, 5, -1},
		"a refusal by a raised limit":           {raised, other, 5, -1},
		"an earlier refusal by another limit":   {elsewhere, earlier, 5, 3},
		"an earlier refusal of more by a limit": {refusalWith(4), earlier, 5, 3},
	} {
		// Unless a refusal is known already, any other that comes first is news.
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, known %v", name, known), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					all := New()
					rules := []Rule{all.Rule(), all.Rule(), all.Rule()}
					rules[earlier] = rules[own]
					rule := rules[own]
					if known {
						rule.Note("k", 4, time.Now(), refusalWith(3))
						time.Sleep(ms)
					}
					asked := time.Now()
					time.Sleep(ms)
					rules[c.by].Note("k", c.cost, time.Now(), c.answer)
					time.Sleep(ms)
					if c.by == earlier {
						asked = time.Now()
						time.Sleep(ms)
					}
					rule.Note("k", 4, asked, refusalWith(3))
					got := check(t, rule, "k", 4, c.want >= 0 && (known || c.by == earlier))
					if got != (core.Decision{}) && got.Remaining != c.want {
						t.Errorf("%+v, want %d remaining", got, c.want)
					}
					rule.Note("k", 4, time.Now(), refusalWith(3))
					if c.by == earlier {
						check(t, rule, "k", 4, true) // the next refusal is remembered
					}
				})
			})
		}
	}
}

// TestAskedBefore: a refusal that was asked for before the numbers of the newest one came again may know of more
// admissions than that one, however late it comes.
func TestAskedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := New().Rule()
		rule.Note("k", 4, time.Now(), refusalWith(2))
		time.Sleep(ms)
		early := time.Now()
		time.Sleep(ms)
		rule.Note("k", 3, time.Now(), refusalWith(2))
		time.Sleep(ms)
		rule.Note("k", 5, early, refusalWith(0))
		time.Sleep(ms)
		check(t, rule, "k", 3, false)
		check(t, rule, "k", 4, false)
	})
}
