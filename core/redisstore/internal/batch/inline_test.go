package batch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestInline: callers serve their own calls under the conditions of InlineMin and InlineMax.
func TestInline(t *testing.T) {
	const least, most, ms = 90 * time.Millisecond, time.Second, time.Millisecond
	ended, end := context.WithCancel(context.Background())
	end()
	for name, test := range map[string]struct {
		ctx    context.Context
		ctxFor time.Duration // until ctx ends; 0: never
		left   time.Duration // until the deadline; 0: none
		want   bool
	}{
		"too little time":            {left: least - 1},
		"least time":                 {left: least, want: true},
		"most time":                  {left: most, want: true},
		"too much time":              {left: most + 1},
		"no deadline":                {},
		"the context lasts":          {ctxFor: most, left: most, want: true},
		"the context ends before":    {ctxFor: most - 1, left: most},
		"the context ends, no other": {ctxFor: most},
		"the context has ended":      {ctx: ended, left: most},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inline := false
				config := byWorkers(func(batch []*testCall) bool {
					inline = batch[0].inline
					time.Sleep(ms)
					return echo(batch)
				})
				config.InlineMin, config.InlineMax = least, most
				q := New(config)
				ctx := test.ctx
				if ctx == nil {
					ctx = context.Background()
				}
				if test.ctxFor > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.ctxFor)
					defer cancel()
				}
				var deadline time.Time
				if test.left > 0 {
					deadline = time.Now().Add(test.left)
				}
				if answer, err := q.Do(ctx, deadline, new(int64(7))); ctx.Err() == nil && (err != nil || answer != 7) {
					t.Errorf("got %d, %v", answer, err)
				}
				synctest.Wait()
				if inline != test.want {
					t.Errorf("served by the caller: %v, want %v", inline, test.want)
				}
				checkEmpty(t, q)
			})
		})
	}
}

// TestInlineAnswerCounts: a caller that is cancelled while it serves its own call gets the answer if there is one: the
// server has counted it.
func TestInlineAnswerCounts(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		q := New(byCallers(time.Minute, func(batch []*testCall) bool {
			time.Sleep(20 * ms)
			return echo(batch)
		}))
		for range 100 { // of two that are ready, select takes any
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(10*ms, cancel)
			if answer, err := q.Do(ctx, time.Now().Add(time.Second), new(int64(7))); err != nil || answer != 7 {
				t.Errorf("got %d, %v; want 7", answer, err)
			}
		}
		checkEmpty(t, q)
	})
}

// TestInlinePanic: a panic of Serve reaches the caller, frees the slot, and is no reply.
func TestInlinePanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(byCallers(time.Minute, func(batch []*testCall) bool {
			if batch[0].Request < 0 {
				time.Sleep(time.Millisecond)
				panic("broken")
			}
			return echo(batch)
		}))
		for range 2 * minSlots {
			func() {
				defer func() {
					if recovered := recover(); recovered != "broken" {
						t.Errorf("recovered %v", recovered)
					}
				}()
				_, _ = ask(q, -1, time.Second)
			}()
			if q.slots.roundTrip != 0 {
				t.Errorf("a panic is taken for a reply after %v", q.slots.roundTrip)
			}
			if _, err := ask(q, 1, 1); err != nil || q.workers.idle > 0 { // whose call may be used again
				t.Errorf("with a nanosecond left: %v, served by the caller: %v", err, q.workers.idle == 0)
			}
		}
		if elapsed, err := ask(q, 1, time.Second); err != nil || elapsed > 0 {
			t.Errorf("%v after %v, want an answer at once", err, elapsed)
		}
		checkEmpty(t, q)
	})
}
