package redisstore

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

func refusal(after time.Duration) core.Decision {
	return core.Decision{Limit: core.PerHour(1), ResetAfter: after, RetryAfter: after, At: time.Unix(1_790_000_000, 0)}
}

// found is find with its result returned, which says where it comes from.
func (d *denials) found(c *counts, client string, cost int64) (answer core.Decision, ok bool) {
	ok, _ = d.find(c, client, cost, &answer)
	ok = ok && answer.Err == core.ErrRemembered
	answer.Err = nil
	return answer, ok
}

// TestDenialsOnAClock: a refusal is remembered from before the question until
// it may end, and asked about once a second by one caller.
func TestDenialsOnAClock(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		d, rule := newDenials(), &counts{id: 1}
		sent := time.Now()
		time.Sleep(300 * ms) // the answer is slow
		d.note(rule, "k", 1, sent, refusal(2500*ms))
		remembered := func(want bool) (answer core.Decision) {
			t.Helper()
			answer, ok := d.found(rule, "k", 1)
			if ok != want {
				t.Errorf("%v after it was asked: remembered %v, want %v", time.Since(sent), ok, want)
			}
			return answer
		}
		time.Sleep(200 * ms)
		if answer := remembered(true); answer != (core.Decision{Limit: core.PerHour(1), ResetAfter: 2300 * ms, RetryAfter: 2300 * ms, At: time.Unix(1_790_000_000, 200e6)}) {
			t.Errorf("200 ms after the answer: %+v", answer)
		}
		if _, ok := d.found(rule, "k", 2); ok {
			t.Error("another cost")
		}
		if _, ok := d.found(&counts{id: 2}, "k", 1); ok {
			t.Error("another rule")
		}
		time.Sleep(500*ms - 1)
		remembered(true)
		time.Sleep(time.Nanosecond) // a second after it was asked
		remembered(false)
		remembered(true) // while that one asks
		time.Sleep(time.Second)
		remembered(false)
		remembered(true)
		time.Sleep(500*ms - 1)
		remembered(true)
		time.Sleep(time.Nanosecond) // the retry moment, by the server's clock at the latest
		remembered(false)
		remembered(false)

		// One who asks and leaves gives its turn to another.
		d.note(rule, "k", 1, time.Now(), refusal(time.Hour))
		time.Sleep(time.Second)
		for range 3 {
			remembered(false)
			d.unanswered(rule, "another", 1)
			d.unanswered(rule, "k", 2)
			time.Sleep(500 * ms)
			remembered(true)
			d.unanswered(rule, "k", 1)
			time.Sleep(denialRecheck - 1)
			remembered(true)
			time.Sleep(time.Nanosecond)
		}
		d.forget("k")
		time.Sleep(ms)

		// An answer to a question from before a reset is not believed.
		sent = time.Now()
		time.Sleep(ms)
		d.forget("k")
		d.note(rule, "k", 1, sent, refusal(time.Hour))
		remembered(false)
		time.Sleep(ms)
		d.note(rule, "k", 1, time.Now(), refusal(time.Hour))
		remembered(true)
		// Of a counter, what ends first: its fixed window or the refusal.
		for _, c := range []struct{ reset, retry time.Duration }{{40 * ms, 70 * ms}, {70 * ms, 40 * ms}} {
			d.note(rule, "counter", 1, time.Now(), core.Decision{Limit: core.PerHour(1).Using(core.SlidingCounter), ResetAfter: c.reset, RetryAfter: c.retry})
			time.Sleep(40*ms - 1)
			if answer, ok := d.found(rule, "counter", 1); !ok || answer.ResetAfter <= 0 || answer.RetryAfter <= 0 {
				t.Errorf("%+v, remembered %v", answer, ok)
			}
			time.Sleep(time.Nanosecond)
			if answer, ok := d.found(rule, "counter", 1); ok {
				t.Errorf("%+v is still remembered", answer)
			}
		}
		// Where something remains, an admission at another cost ends it.
		some := refusal(time.Hour)
		some.Remaining = 2
		d.note(rule, "some", 3, time.Now(), some)
		if answer, ok := d.found(rule, "some", 3); !ok || answer != some {
			t.Errorf("%+v, remembered %v", answer, ok)
		}
		d.note(rule, "some", 2, time.Now(), core.Decision{Allowed: true})
		if answer, ok := d.found(rule, "some", 3); ok {
			t.Errorf("%+v is still remembered", answer)
		}
		// Where nothing is counted, a cost above the limit is asked about again
		// after a second.
		never := core.Decision{Limit: core.PerHour(1), Remaining: 1, RetryAfter: core.Never, At: time.Unix(1_790_000_000, 0)}
		d.note(rule, "never", 2, time.Now(), never)
		time.Sleep(denialCheck - 1)
		never.At = never.At.Add(denialCheck - time.Microsecond)
		if answer, ok := d.found(rule, "never", 2); !ok || answer != never {
			t.Errorf("%+v, remembered %v", answer, ok)
		}
		time.Sleep(time.Nanosecond)
		if answer, ok := d.found(rule, "never", 2); ok {
			t.Errorf("%+v is still remembered", answer)
		}
		if answer, ok := d.found(rule, "never", 2); !ok {
			t.Errorf("%+v is not remembered while one asks", answer)
		}
		// An admission ends it.
		d.note(rule, "k", 1, time.Now(), core.Decision{Allowed: true})
		remembered(false)
	})
}

// TestDenialsOfOthers: what is remembered of a client for whom something remains
// stands while others are admitted.
func TestDenialsOfOthers(t *testing.T) {
	const others = 1000
	d, rule := newDenials(), &counts{id: 1}
	some := refusal(time.Hour)
	some.Remaining = 2
	d.note(rule, "k", 3, time.Now(), some)
	shard, _ := d.shard("k")
	asked := 0
	for i, n := 0, 0; n < others; i++ {
		other := fmt.Sprint(i)
		if s, _ := d.shard(other); s != shard {
			continue
		}
		n++
		d.note(rule, other, 1, time.Now(), core.Decision{Allowed: true})
		if _, ok := d.found(rule, "k", 3); !ok {
			asked++
			d.note(rule, "k", 3, time.Now(), some)
		}
	}
	if asked > others/20 {
		t.Errorf("asked %d times while %d others were admitted", asked, others)
	}
}

// TestDenialsBounded: a flood of clients that are all refused does not grow what
// is remembered, and the newest is.
func TestDenialsBounded(t *testing.T) {
	d, rule := newDenials(), &counts{id: 1}
	for i := range 3 * denialShards * denialsInShard {
		client := fmt.Sprint(i)
		d.note(rule, client, 1, time.Now(), refusal(time.Hour))
		if _, ok := d.found(rule, client, 1); !ok {
			t.Fatalf("%s is not remembered", client)
		}
	}
	n := 0
	for i := range d.shards {
		n += len(d.shards[i].of)
	}
	if n > denialShards*denialsInShard {
		t.Errorf("%d are remembered", n)
	}
}
