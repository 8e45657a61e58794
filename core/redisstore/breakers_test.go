package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// fail lets so many calls fail that the breaker opens.
func (b *breaker) fail(t *testing.T) {
	t.Helper()
	for range breakerFailures {
		tell, err := b.Allow()
		if err != nil {
			t.Fatal(err)
		}
		tell(errors.New("no answer"))
	}
}

// TestBreakerStatus: the state, since when, and how often the breaker has opened. A
// trial that fails is no new outage.
func TestBreakerStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := time.Now()
		b := newBreaker("127.0.0.1:6379")
		want := Breaker{Server: "127.0.0.1:6379", State: StateClosed, Changed: made}
		check := func(what string) {
			t.Helper()
			if got := *b.status.Load(); got != want {
				t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
			}
			if b.closed() != (want.State == StateClosed) {
				t.Errorf("%s: closed: %v", what, b.closed())
			}
		}
		check("at first")
		time.Sleep(time.Second)
		b.fail(t)
		want.State, want.Changed, want.FailingSince, want.Trips = StateOpen, time.Now(), time.Now(), 1
		check("after failures")
		for _, outcome := range []error{errors.New("still no answer"), nil} {
			time.Sleep(time.Second)
			check("without requests")
			tell, err := b.Allow()
			if err != nil {
				t.Fatal(err)
			}
			want.State, want.Changed = StateHalfOpen, time.Now()
			check("with a trial under way")
			time.Sleep(time.Second)
			tell(outcome)
			want.State, want.Changed = StateOpen, time.Now()
			if outcome == nil {
				want.State, want.FailingSince = StateClosed, time.Time{}
			}
			check(fmt.Sprint("after a trial that ended with ", outcome))
		}
		time.Sleep(time.Second)
		b.fail(t)
		want.State, want.Changed, want.FailingSince, want.Trips = StateOpen, time.Now(), time.Now(), 2
		check("after the next outage")
	})
}

// TestBreakers: the breakers of all servers, by address. One address has one, the
// latest. A node that failed and that no request has tried since is left out.
func TestBreakers(t *testing.T) {
	var c client
	c.init(redis.NewRing(&redis.RingOptions{}))
	defer c.rdb.Close()
	get := func(addr string) *breaker {
		node := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { node.Close() })
		return c.nodes.get(&c, node).breaker
	}
	get("b").fail(t)
	latest, early := get("b"), get("b")
	latest.made = early.made.Add(time.Second)
	early.fail(t)
	get("a")
	get("c").fail(t)
	check := func(later time.Duration, want ...string) {
		t.Helper()
		var got []string
		for _, b := range c.breakers(time.Now().Add(later)) {
			got = append(got, b.Server+" "+string(b.State))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v later: %q, want %q", later, got, want)
		}
	}
	check(0, " closed", "a closed", "b closed", "c open")
	check(idleAfter/2, " closed", "a closed", "b closed", "c open")
	check(2*idleAfter, " closed", "a closed", "b closed")
	c.first.breaker.fail(t)
	check(2*idleAfter, " open", "a closed", "b closed")
}

// TestEventsOfBatches: the number of batches, of requests in them, and the largest.
func TestEventsOfBatches(t *testing.T) {
	var c client
	c.init(redis.NewRing(&redis.RingOptions{}))
	defer c.rdb.Close()
	requests := together{newQueue(nil, 0, 0), &c, c.first.breaker}
	for _, n := range []int{2, 5, 3} {
		requests.begin(slices.Repeat([]*call{{Context: t.Context()}}, n)).end(nil)
	}
	e := &c.events
	if e.batches.Load() != 3 || e.batched.Load() != 10 || e.largest.Load() != 5 {
		t.Errorf("%d batches of %d requests, the largest of %d; want 3 of 10, 5",
			e.batches.Load(), e.batched.Load(), e.largest.Load())
	}
}
