package core_test

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

// TestLogRefusals: a client that is refused gets a line, and another one an interval or
// two after its last refusal.
func TestLogRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		store := &outages{refuses: true}
		l := limiter(t, core.Config{Name: "api", Store: store, Observer: core.LogRefusals(log.logger(), time.Minute)})
		login := core.Must(l.Rule("login", core.PerMinute(1)))
		for range 100 {
			l.Allow(ctx, "user:42")
			l.Peek(ctx, "user:peeks")
			l.Allow(ctx, "")
			time.Sleep(time.Second)
		}
		login.Allow(ctx, "user:42")
		store.refuses = false
		l.Allow(ctx, "user:43")
		store.err = errDown
		l.WithPolicy(core.FailClosed).Allow(ctx, "user:44")
		synctest.Wait()
		expectLines(t, "while refused", log.take(),
			[]string{"is being refused", "limiter=api", "key=user:42"},
			[]string{"is being refused", "rule=login", "key=user:42"})
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		expectLines(t, "afterwards", log.take(),
			[]string{"no longer refused", "limiter=api", "key=user:42", "refused=100", "for=1m39s"},
			[]string{"no longer refused", "rule=login", "refused=1"})
		time.Sleep(time.Hour)
		expectLines(t, "later", log.take())
	})
}

// TestLogRefusalsFlood: a flood from many clients writes few lines, each short.
func TestLogRefusalsFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		l := limiter(t, core.Config{
			Name: "api", Store: &outages{refuses: true}, Observer: core.LogRefusals(log.logger(), time.Minute),
		})
		flood := func() {
			for i := range 1000 {
				l.Allow(ctx, fmt.Sprint("\n", i, strings.Repeat("x", 1000)))
			}
		}
		flood()
		got := log.take()
		if len(got) != 20 || len(got[0]) > 250 || !strings.Contains(got[0], `key=\n0xxx`) {
			t.Fatalf("%d lines at first: %.300s", len(got), got)
		}
		time.Sleep(30 * time.Second)
		flood()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		expectLines(t, "the others", log.take(), []string{"other clients are refused too", "refused=1960", "in=1m0s"})
		for range 2 * 59 {
			flood()
			time.Sleep(30 * time.Second)
			synctest.Wait()
		}
		if got := log.take(); len(got) != 80+59 {
			t.Errorf("%d lines in 59 minutes of a flood from 1000 clients, want 80 clients and 59 lines of others", len(got))
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := log.take(); len(got) != 100 {
			t.Errorf("%d lines at the end, want 100 clients", len(got))
		}
	})
}

// TestLogArguments: wrong arguments panic with words. A number without a unit, which would
// be an interval of nanoseconds, is one.
func TestLogArguments(t *testing.T) {
	var log lines
	for want, call := range map[string]func(){
		"core.LogRefusals(nil, ...): give":      func() { core.LogRefusals(nil, time.Minute) },
		"core.LogRefusals(..., 0s): give":       func() { core.LogRefusals(log.logger(), 0) },
		"core.LogRefusals(..., -1m0s): give":    func() { core.LogRefusals(log.logger(), -time.Minute) },
		"core.LogRefusals(..., 60ns): give":     func() { core.LogRefusals(log.logger(), 60) },
		"the logger of core.LogRefusals has no": func() { core.LogRefusals(new(slog.Logger), time.Minute) },
		"core.LogErrors(nil, ...): give":        func() { core.LogErrors(nil, time.Second) },
		"core.LogErrors(..., -1ns): give":       func() { core.LogErrors(log.logger(), -1) },
		"core.LogErrors(..., 60ns): give":       func() { core.LogErrors(log.logger(), 60) },
		"the logger of core.LogErrors has no":   func() { core.LogErrors(new(slog.Logger), time.Second) },
	} {
		func() {
			defer func() {
				words := fmt.Sprint(recover())
				if !strings.HasPrefix(words, "sash: ") || !strings.Contains(words, want) {
					t.Errorf("the panic %s does not say %q", words, want)
				}
			}()
			call()
		}()
	}
	for _, interval := range []time.Duration{0, time.Millisecond, math.MaxInt64} {
		core.LogErrors(log.logger(), interval)
		core.LogRefusals(log.logger(), max(interval, time.Millisecond))
	}
}
