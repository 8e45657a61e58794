package lease

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

// crowd starts requests that must all be admitted.
func (s *scene) crowd(t *testing.T, group *sync.WaitGroup, n int) {
	for range n {
		group.Go(func() {
			if d := s.allow(t, 1); !d.Allowed || d.Err != nil {
				t.Errorf("%+v", d)
			}
		})
	}
}

// TestCallerLeaves: a caller that leaves while it renews a lease wastes nothing: the lease is there for the others,
// whether they wait for it or come later.
func TestCallerLeaves(t *testing.T) {
	for name, impatient := range map[string]func(*scene, context.Context) error{
		"cancelled": func(s *scene, ctx context.Context) error {
			ctx, leave := context.WithCancel(ctx)
			time.AfterFunc(time.Millisecond, leave)
			_, err := s.take(ctx, core.DefaultTimeout)
			return err
		},
		"with a deadline": func(s *scene, ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			_, err := s.take(ctx, 0)
			return err
		},
		"with a short timeout": func(s *scene, ctx context.Context) error {
			_, err := s.take(ctx, time.Millisecond)
			return err
		},
	} {
		for test, waits := range map[string]bool{"alone": false, "waited for": true} {
			t.Run(name+"/"+test, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScene(t, core.Per(100_000, time.Minute), 1000)
					admitted := s.warm(t, 400)
					for range 10 {
						admitted += s.empty(t)
						admitted += s.leave(t, impatient, waits)
						s.way = 100 * time.Microsecond
						admitted += s.warm(t, 20)
					}
					// A lease gives way to a larger one with less than a request of cost 1 left.
					charged := s.Charged()
					if wasted := charged - admitted - s.unspent(); wasted != 0 {
						t.Errorf("of %d units that were charged, %d are wasted", charged, wasted)
					}
				})
			})
		}
	}
}

// leave has an impatient caller renew the lease, and another wait for that if waits is true. It returns how many
// requests were admitted.
func (s *scene) leave(t *testing.T, impatient func(*scene, context.Context) error, waits bool) (admitted int64) {
	t.Helper()
	s.way = 10 * time.Millisecond
	before, began := s.Scripts, time.Now()
	var group sync.WaitGroup
	if waits {
		group.Go(func() {
			synctest.Wait()
			if d := s.allow(t, 1); !d.Allowed || d.Err != nil {
				t.Errorf("a caller that waits: %+v", d)
			}
		})
		admitted++
	}
	if err := impatient(s, t.Context()); err == nil || time.Since(began) != time.Millisecond {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	group.Wait()
	time.Sleep(30 * time.Millisecond)
	synctest.Wait()
	if s.Scripts != before+1 || s.unspent() < 10 {
		t.Errorf("%d scripts, %d units are left", s.Scripts-before, s.unspent())
	}
	return admitted
}

// TestResetMeanwhile: a lease that was asked for before a reset is not kept.
func TestResetMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, core.Per(100_000, time.Minute), 1000)
		for s.unspent() < 10 {
			s.warm(t, 1)
		}
		s.empty(t)
		done := make(chan core.Decision)
		go func() { done <- s.allow(t, 1) }()
		synctest.Wait() // it waits for its lease
		if err := s.limiter.Reset(t.Context(), "client"); err != nil {
			t.Fatal(err)
		}
		if d := <-done; !d.Allowed || s.Charges[len(s.Charges)-1].Units < 2 || s.unspent() != 0 {
			t.Errorf("%+v, %d left", d, s.unspent())
		}
	})
}

// TestAnsweredWhileLeaving: a caller that leaves just when its renewal is over waits for its answer.
func TestAnsweredWhileLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, core.Per(100_000, time.Minute), 1000)
		_, shard := s.rule.holder("client")
		ctx, leave := context.WithCancel(t.Context())
		leave()
		for range 50 { // of two that are ready, select takes any
			r := &renewal{request: request{shard: shard}, lease: new(lease), done: make(chan struct{})}
			r.first.Allowed = true // by a request that was asked alone
			s.rule.finish(r, answer{})
			if d, err := s.rule.awaitOwn(ctx, &request{}, r); err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
			r.done = make(chan struct{}) // as while finish goes on
			r.first.Allowed = false
			time.AfterFunc(time.Millisecond, func() {
				r.first.Allowed = true
				close(r.done)
			})
			if d, err := s.rule.awaitOwn(ctx, &request{}, r); err != nil || !d.Allowed {
				t.Fatalf("before the end: %+v, %v", d, err)
			}
		}
	})
}
