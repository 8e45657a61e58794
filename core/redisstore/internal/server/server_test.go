package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/batch"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
)

const ms = time.Millisecond

// TestDo: a script goes out by its hash, once more by its source if the server does not know it, and again after pauses
// while a slot moves, as long as there is time.
func TestDo(t *testing.T) {
	tryAgain := replyError("TRYAGAIN Multiple keys request during rehashing of slot")
	for name, test := range map[string]struct {
		replies []any
		sent    string
		elapsed time.Duration
		err     string
	}{
		"known":          {replies: []any{admitted}, sent: "evalsha"},
		"not known":      {replies: []any{replyError("NOSCRIPT No matching script."), admitted}, sent: "evalsha eval"},
		"never known":    {replies: []any{replyError("NOSCRIPT")}, sent: "evalsha eval", err: "NOSCRIPT"},
		"another error":  {replies: []any{replyError("OOM")}, sent: "evalsha", err: "OOM"},
		"moved":          {replies: []any{replyError("MOVED 1 127.0.0.1:1")}, sent: "evalsha", err: "MOVED"},
		"cannot be read": {replies: []any{panics("length")}, sent: "evalsha", err: "cannot read the reply: length"},
		"too long":       {replies: []any{admitted + "A-"}, sent: "evalsha", err: "cannot be read"},
		"a slot moves": {
			replies: []any{tryAgain, tryAgain, tryAgain, admitted},
			sent:    strings.Repeat("evalsha ", 4), elapsed: 7 * ms,
		},
		"moves to a server that does not know the script": {
			replies: []any{tryAgain, replyError("NOSCRIPT"), tryAgain, admitted}, sent: "evalsha evalsha eval eval",
			elapsed: 3 * ms,
		},
		"moves for long": {
			replies: []any{tryAgain}, sent: strings.Repeat("evalsha ", 7), elapsed: 63 * ms, err: "TRYAGAIN",
		},
		"late": {sent: "evalsha", elapsed: 100 * ms, err: "no answer within the timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := newScripted(t, test.replies...)
				start := time.Now()
				d, err := c.Do(t.Context(), start.Add(core.DefaultTimeout), newRequest())
				if test.err == "" && (err != nil || !d.Allowed) ||
					test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
					t.Errorf("got %+v, %v", d, err)
				}
				sent := strings.Join(s.names(), " ")
				if sent != strings.TrimSpace(test.sent) || time.Since(start) != test.elapsed {
					t.Errorf("sent %s in %v, want %s in %v", sent, time.Since(start), test.sent, test.elapsed)
				}
				if c.Scripts.Load() != uint64(len(s.names())) {
					t.Errorf("%d scripts, %d were sent", c.Scripts.Load(), len(s.names()))
				}
				time.Sleep(time.Hour)
			})
		})
	}
}

// TestBreakerProbe: while the breaker is open a probe takes as long as it may, though the caller whose request is sent
// has left. The caller learns that the request may have been counted. A probe of a silent server ends.
func TestBreakerProbe(t *testing.T) {
	for _, silent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, c := newScripted(t)
			if !silent {
				s.replies = []any{admitted}
			}
			b := c.Default.breaker
			b.fail(t)
			if _, err := c.Do(t.Context(), time.Time{}, newRequest()); core.StageOf(err) != core.StageUnavailable {
				t.Errorf("before the pause has passed: %v at the stage %v", err, core.StageOf(err))
			}
			time.Sleep(breakerPause)
			ctx, cancel := context.WithCancel(t.Context())
			_, err := c.Do(ctx, time.Now().Add(ms), newRequest())
			cancel()
			if !errors.Is(err, core.ErrUnavailable) || core.StageOf(err) != core.StageReply {
				t.Errorf("the probe: %v, at the stage %v", err, core.StageOf(err))
			}
			time.Sleep(probeTimeout - 1)
			if state := b.Status().State; (state == HalfOpen) != silent {
				t.Errorf("silent: %v: %s while the probe may take", silent, state)
			}
			time.Sleep(ms)
			scripts := strings.Count(strings.Join(s.names(), " "), "evalsha")
			if state := b.Status().State; (state == Open) != silent || scripts != 1 {
				t.Errorf("silent: %v: %s after the probe, sent %v", silent, state, s.names())
			}
		})
	}
}

// TestCallersLeave: callers that leave before the server is due neither speak for the server nor against it; the calls
// that they leave behind do.
func TestCallersLeave(t *testing.T) {
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
				_, c := newScripted(t, test.takes)
				if !test.open {
					c.RDB.(*scripted).replies = []any{slowReply(test.takes)}
				}
				for range maxFailures {
					var deadline time.Time
					if test.timeout > 0 {
						deadline = time.Now().Add(test.timeout)
					}
					own, cancel := context.WithTimeout(t.Context(), ms)
					_, err := c.Do(own, deadline, newRequest())
					cancel()
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("a caller is told %v", err)
					}
					time.Sleep(20 * ms) // a batch is presumed lost, and the next may be sent
				}
				time.Sleep(core.DefaultTimeout)
				synctest.Wait()
				if open := c.Default.breaker.Status().State == Open; open != test.open {
					t.Errorf("the breaker is open: %v, want %v", open, test.open)
				}
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// TestStageOfQueue: a request that waits for the batches before it was not sent. A request in a batch was.
func TestStageOfQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := newScripted(t, time.Second)
		deadline, stages := time.Now().Add(10*ms), make(chan core.Stage, 5)
		for range 5 { // four batches may be in flight
			go func() {
				_, err := c.Do(t.Context(), deadline, newRequest())
				stages <- core.StageOf(err)
			}()
			synctest.Wait()
		}
		got := map[core.Stage]int{}
		for range 5 {
			got[<-stages]++
		}
		if got[core.StageReply] != 4 || got[core.StageQueued] != 1 {
			t.Errorf("the stages are %v", got)
		}
		time.Sleep(2 * time.Second)
	})
}

// TestBreakerOpensBeforeBatch: requests that waited when the breaker opened get its error.
func TestBreakerOpensBeforeBatch(t *testing.T) {
	s, c := newScripted(t, admitted)
	c.Default.breaker.fail(t)
	if _, err := c.Default.queue.Do(t.Context(), time.Time{}, newRequest()); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("the caller is told %v", err)
	}
	if len(s.names()) > 0 {
		t.Errorf("sent %v", s.names())
	}
}

// TestCommandAllocations: the arguments for a request take three pieces of memory: the text of its keys, the argument
// that is its key, and the list of arguments. What the text is built in, 2 KB for a batch, stays on the stack.
func TestCommandAllocations(t *testing.T) {
	calls := []*call{batch.NewCall[Request, core.Decision](t.Context(), time.Time{}, *newRequest())}
	if n := testing.AllocsPerRun(100, func() { commandArgs(calls) }); n > 3 {
		t.Errorf("%v allocations, want at most 3", n)
	}
}

// TestEncode: one script decides the requests of a batch that have the same, where that is allowed.
func TestEncode(t *testing.T) {
	one, other := newRequest(), newRequest()
	other.Rule.Script = script.Script{SHA: "another"}
	back := newRequest()
	back.Command = &Command{Args: []any{"del", "k"}}
	var calls []*call
	for _, r := range []*Request{one, other, back, one, other, back} {
		calls = append(calls, batch.NewCall[Request, core.Decision](t.Context(), time.Time{}, *r))
	}
	for shared, want := range map[bool]string{true: "[2 2 1 1]", false: "[1 1 1 1 1 1]"} {
		var sizes []int
		for _, cmd := range encode(t.Context(), calls, shared) {
			sizes = append(sizes, len(cmd.calls))
		}
		if fmt.Sprint(sizes) != want {
			t.Errorf("shared: %v: commands for %v calls, want %s", shared, sizes, want)
		}
	}
}

// TestBatchError: requests that cannot come together are sent by themselves, and so are those that come after them.
func TestBatchError(t *testing.T) {
	s, c := newScripted(t, admitted)
	c.Default.shared.shareGeneration.Store(1)
	calls := []*call{
		batch.NewCall[Request, core.Decision](t.Context(), time.Time{}, *newRequest()),
		batch.NewCall[Request, core.Decision](t.Context(), time.Time{}, *newRequest()),
	}
	shared := encode(t.Context(), calls, true)
	shared[0].SetErr(replyError("CROSSSLOT Keys in request don't hash to the same slot"))
	all := c.Default.sendAgain(t.Context(), shared)
	if len(all) != 2 || all[0].Err() != nil || all[1].Err() != nil || len(s.names()) != 2 {
		t.Errorf("%d commands, of which %v were sent, want 2", len(all), s.names())
	}
	if generation := c.Default.shared.shareGeneration.Load(); generation != 0 {
		t.Errorf("requests may still share a script, in generation %d", generation)
	}
}

// TestCommandRead: the reply to a command is a number.
func TestCommandRead(t *testing.T) {
	var c Command
	if err := c.read("5"); err != nil || c.Result != 5 {
		t.Errorf("got %d, %v, want 5", c.Result, err)
	}
	if err := c.read("OK"); !errors.Is(err, script.ErrReply) {
		t.Errorf("got %v, want %v", err, script.ErrReply)
	}
}

// slowReply is a reply that takes a while.
type slowReply time.Duration

var _ redis.UniversalClient = (*scripted)(nil)

// TestRead: each caller of a batch gets its part of the reply. All that come after a part which cannot be read get that
// error, and so does the last one where the reply goes on. FuzzReply of package script reads any part.
func TestRead(t *testing.T) {
	for reply, want := range map[string][3]error{
		"1790000000 5A-A-A-":                  {},
		"1790000000 5A-Fkey\nA-":              {1: script.ErrCorrupt},
		"1790000000 5A-\xff":                  {1: script.ErrReply, 2: script.ErrReply},
		"1790000000 5A-A-A-A-":                {2: script.ErrReply},
		"999999999999999999 9999999999A-A-A-": {script.ErrReply, script.ErrReply, script.ErrReply},
	} {
		cmd := newCommand(t.Context(), nil, nil)
		cmd.SetVal(reply)
		for range want {
			cmd.calls = append(cmd.calls, &call{Request: *newRequest()})
		}
		n, before := 0, error(nil)
		cmd.read(nil, func(c *call, d core.Decision, err error) {
			if n > 0 && want[n] == script.ErrReply && want[n-1] == want[n] && err != before {
				t.Errorf("%q, call %d: %v, want %v as it is", reply, n, err, before)
			}
			if c != cmd.calls[n] || !errors.Is(err, want[n]) || err == nil && !d.Allowed ||
				(err == nil) != (want[n] == nil) {
				t.Errorf("%q, call %d: %+v, %v, want %v", reply, n, d, err, want[n])
			}
			n, before = n+1, err
		})
	}
}
