package redisstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/redistest"
)

// idle returns a client that has nobody to send to.
func idle() *client { return &client{calls: make(chan struct{}, maxCalls)} }

// newBatch returns calls for a request with these timeouts. Their callers leave
// when the test ends.
func newBatch(t *testing.T, r request, timeouts ...time.Duration) []*call {
	calls := make(chan *call)
	q := newQueue(func(batch []*call) bool {
		for _, c := range batch {
			calls <- c
		}
		return true
	}, 0, 0)
	var batch []*call
	for _, timeout := range timeouts {
		go func() { _, _ = q.Do(t.Context(), time.Now().Add(timeout), &r) }()
		batch = append(batch, <-calls)
	}
	return batch
}

// TestBreakerClosed: five failures in a row open a breaker, for a tenth of a second. Then one decision at a time is
// tried, and its success closes the breaker. The copy of the state follows the state.
func TestBreakerClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker("")
		tell := func(err error) {
			done, refused := b.Allow()
			if refused != nil {
				t.Fatal(refused)
			}
			done(err)
		}
		check := func(when string, want gobreaker.State) {
			if state := b.State(); state != want || b.closed() != (want == gobreaker.StateClosed) {
				t.Errorf("%s: %v, closed: %v; want %v", when, state, b.closed(), want)
			}
		}
		for _, failures := range []int{4, 5} { // in a row, beside a success
			tell(nil)
			check("after a success", gobreaker.StateClosed)
			for range failures - 1 {
				tell(errLate)
			}
			check("before the last failure", gobreaker.StateClosed)
			tell(errLate)
		}
		check("after five failures", gobreaker.StateOpen)
		time.Sleep(100 * time.Millisecond)
		check("within the pause", gobreaker.StateOpen)
		time.Sleep(time.Nanosecond)
		check("after the pause", gobreaker.StateHalfOpen)
		done, err := b.Allow()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Allow(); err == nil {
			t.Error("two decisions are tried at a time")
		}
		done(nil)
		check("after the trial", gobreaker.StateClosed)
	})
}

// opened returns a breaker that lets a trial through.
func opened(t *testing.T) *breaker {
	t.Helper()
	b := newBreaker("")
	for range breakerFailures {
		done, err := b.Allow()
		if err != nil {
			t.Fatal(err)
		}
		done(errLate)
	}
	time.Sleep(breakerPause + 1)
	return b
}

// TestTrialOfTheHasty: a trial, whether the server is back, takes as long as it
// may, though the caller whose request is tried is in a hurry. The caller is told that
// the request may have been sent.
func TestTrialOfTheHasty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := opened(t)
		hasty, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, core.ErrTimeout)
		defer cancel()
		_, err := idle().guarded(hasty, time.Time{}, b, target{}, func(ctx context.Context) (string, error) {
			select {
			case <-time.After(core.DefaultTimeout * 9 / 10):
				return "", nil
			case <-ctx.Done():
				return "", ended(ctx)
			}
		})
		if !errors.Is(err, core.ErrUnavailable) || core.StageOf(err) != core.StageReply {
			t.Errorf("the caller is told %v, at the stage %v", err, core.StageOf(err))
		}
		time.Sleep(core.DefaultTimeout)
		if !b.closed() {
			t.Error("the server was back, and the breaker is not closed")
		}
	})
}

// TestTrialWithoutDeadline: a trial of a silent server ends, though its caller has no deadline.
func TestTrialWithoutDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := opened(t)
		_, err := idle().guarded(t.Context(), time.Time{}, b, target{}, func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", ended(ctx)
		})
		if !errors.Is(err, core.ErrUnavailable) {
			t.Errorf("the caller is told %v", err)
		}
		time.Sleep(core.DefaultTimeout)
		synctest.Wait()
		if state := b.State(); state != gobreaker.StateOpen {
			t.Errorf("%v after the trial", state)
		}
	})
}

// TestHastyCallers: callers that leave before the server is due neither speak
// for the server nor against it; the calls that they leave behind do.
func TestHastyCallers(t *testing.T) {
	for name, test := range map[string]struct {
		takes   time.Duration // until the server answers
		timeout time.Duration // of the limiter; 0: none
		open    bool
	}{
		"silent":             {time.Hour, core.DefaultTimeout, true},
		"slow":               {core.DefaultTimeout * 9 / 10, core.DefaultTimeout, false},
		"silent, no timeout": {time.Hour, 0, true},
		"slow, no timeout":   {core.DefaultTimeout * 9 / 10, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, c := newBreaker(""), idle()
				var deadline time.Time
				if test.timeout > 0 {
					deadline = time.Now().Add(test.timeout)
				}
				for range breakerFailures {
					own, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					_, err := c.guarded(own, deadline, b, target{}, func(ctx context.Context) (string, error) {
						time.Sleep(test.takes) // go-redis may not heed ctx
						return "", nil
					})
					cancel()
					if !errors.Is(err, context.DeadlineExceeded) || !isCallers(err) {
						t.Errorf("a caller is told %v", err)
					}
				}
				if !b.closed() {
					t.Error("the breaker is open before the server is due")
				}
				time.Sleep(core.DefaultTimeout)
				synctest.Wait()
				if b.closed() == test.open {
					t.Errorf("the breaker is open: %v, want %v", !test.open, test.open)
				}
				time.Sleep(time.Hour) // till the calls have ended
			})
		})
	}
}

// TestToldOnce: a reply that comes after the breaker has heard of a silent server
// does not speak for the server. A patient caller gets the reply all the same.
func TestToldOnce(t *testing.T) {
	server := redistest.Start(t)
	counts := bind(t, server.Client(t), core.PerHour(10))
	if _, err := counts.askAlone(t.Context(), time.Time{}, "k", 0, true); err != nil { // the server knows the script now
		t.Fatal(err)
	}
	r := asking(counts, "k", 1, true)
	r.args = counts.rule.Call(&r.Ask)
	own := newBreaker("")
	counts.batches.breaker = own
	for name, together := range map[string]func([]*call) bool{
		"batches":  counts.batches.serve,
		"pipeline": newPipeline(&counts.store.client, nil, own).serve,
	} {
		t.Run(name, func(t *testing.T) {
			before := own.Counts()
			server.Pause()
			inTime := make(chan bool)
			batch := newBatch(t, r, core.DefaultTimeout, time.Minute)
			go func() { inTime <- together(batch) }()
			redistest.WaitFor(t, "the breaker to hear of the server", func() error {
				if own.Counts().TotalFailures == before.TotalFailures {
					return errors.New("it has not")
				}
				return nil
			})
			server.Resume()
			if !<-inTime {
				t.Error("the reply was late for the patient caller")
			}
			if n := own.Counts(); n.TotalFailures != before.TotalFailures+1 || n.TotalSuccesses != before.TotalSuccesses {
				t.Errorf("told %+v, before %+v", n, before)
			}
		})
	}
}

// TestCallsBounded: no more than 1024 calls are under way. Another one waits for its turn, until its context ends.
func TestCallsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := client{calls: make(chan struct{}, maxCalls)}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, core.ErrTimeout)
		defer cancel()
		n, end := 0, make(chan struct{})
		call := func() (string, error) {
			n++
			<-end
			return "", nil
		}
		for range 1025 {
			go func() { _, _ = c.inTurn(t.Context(), call) }()
			synctest.Wait()
		}
		if n != 1024 {
			t.Errorf("%d calls at a time", n)
		}
		if _, err := c.inTurn(ctx, call); core.StageOf(err) != core.StageQueued || !errors.Is(err, core.ErrTimeout) {
			t.Errorf("one more call: %v at the stage %q, want ErrTimeout while queued", err, core.StageOf(err))
		}
		if synctest.Wait(); n != 1024 {
			t.Errorf("%d calls before a turn comes", n)
		}
		end <- struct{}{}
		if synctest.Wait(); n != 1025 {
			t.Errorf("%d calls after a turn has come", n)
		}
		close(end)
	})
}
