package memstore_test

import (
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/model"
	"github.com/sashlimit/sash/core/memstore"
)

// choices are the fuzzer's bytes, each of which decides something.
type choices []byte

// next returns a choice from 0 to n-1, for n up to 256. It is 0 if no bytes are left.
func (c *choices) next(n int) int {
	if len(*c) == 0 {
		return 0
	}
	choice := int((*c)[0]) % n
	*c = (*c)[1:]
	return choice
}

// limits returns one to three limits, with windows from 1 ms to 37 hours.
func (c *choices) limits() []core.Limit {
	limits := make([]core.Limit, 1+c.next(3))
	for i := range limits {
		window := core.MinWindow<<c.next(28) + time.Duration(c.next(256))*time.Microsecond
		limits[i] = core.Per(1+int64(c.next(12)), window).Named(key("l", i)).Using(algorithms[c.next(2)])
	}
	return limits
}

// wait returns a time to wait after a decision: none, a part of a window, a window, the
// time after which the decision said to come again, or a microsecond more or less than
// such a time.
func (c *choices) wait(limits []core.Limit, last core.Decision) time.Duration {
	window := limits[c.next(len(limits))].Window
	waits := [...]time.Duration{
		0, time.Microsecond, window / 7, window / 2, window, 2 * window, last.RetryAfter, last.ResetAfter,
	}
	wait := waits[c.next(len(waits))]
	if wait == core.Never {
		wait = window
	}
	wait += time.Duration(c.next(3)-1) * time.Microsecond
	return max(0, wait).Truncate(time.Microsecond)
}

// FuzzModel compares the decisions about random requests of several clients with the
// model, answer by answer.
func FuzzModel(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("one limit, and requests that come in the order of these letters"))
	const threeLimits = "\x02\x10\x00\x03\x00\x0a\xff\x05\x01\x1b\x07\x0b\x00"
	f.Add([]byte(threeLimits + "three limits, and a longer history of requests"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := choices(data)
		limits := c.limits()
		s, clock := newStore(memstore.MinMaxBytes)
		l := limiter(t, s, limits...)
		var clients [3]model.Client
		var last core.Decision
		for step := 0; len(c) > 0 && step < 1000; step++ {
			clock.Add(c.wait(limits, last))
			client, action := c.next(len(clients)), c.next(16)
			name := key("client ", client)
			if action == 0 {
				if err := l.Reset(ctx, name); err != nil {
					t.Fatal(err)
				}
				clients[client] = model.Client{}
				continue
			}
			cost, peek := int64(c.next(5)), action < 4
			last = l.Decide(ctx, core.Request{Key: name, Cost: cost, Peek: peek})
			if want := clients[client].Decide(limits, clock.Now(), cost, !peek); last != want {
				t.Fatalf("step %d: %v, cost %d, peek %v:\n got %+v\nwant %+v", step, limits, cost, peek, last, want)
			}
		}
	})
}
