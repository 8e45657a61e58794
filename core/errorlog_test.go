package core_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/errs"
)

// lines collects what is logged, a line each. It is safe for concurrent use.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (b *lines) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// take returns the lines since the last call.
func (b *lines) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.text.Reset()
	return strings.FieldsFunc(b.text.String(), func(r rune) bool { return r == '\n' })
}

// asDefault makes the lines those of slog.Default until the test ends.
func (b *lines) asDefault(t *testing.T) {
	before := slog.Default()
	slog.SetDefault(b.logger())
	t.Cleanup(func() { slog.SetDefault(before) })
}

// expectLines checks that there is one line for each element, and that it has all texts
// of that element.
func expectLines(t *testing.T, what string, got []string, want ...[]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: got %d lines, want %d:\n%s", what, len(got), len(want), strings.Join(got, "\n"))
		return
	}
	for i := range want {
		for _, text := range want[i] {
			if !strings.Contains(got[i], text) {
				t.Errorf("%s: line %d does not say %q:\n%s", what, i, text, got[i])
			}
		}
	}
}

// TestDefaultLog: a limiter without an observer writes what its policy does, what the
// store says and what to do, once a minute for each rule, and when the store is back.
func TestDefaultLog(t *testing.T) {
	var log lines
	log.asDefault(t)
	synctest.Test(t, func(t *testing.T) {
		store := &fake{}
		l := limiter(t, core.Config{Name: "api", Store: store})
		login := core.Must(l.Rule("login", core.PerMinute(1))).WithPolicy(core.FailClosed)
		l.Allow(ctx, "k")
		expectLines(t, "an undisturbed decision", log.take())
		store.answer = fails(errors.New("WRONGPASS invalid username-password pair"))
		for range 1000 {
			l.Allow(ctx, "k")
		}
		login.Allow(ctx, "k")
		expectLines(t, "the outage begins", log.take(),
			[]string{"level=WARN", "requests are served, uncounted", "limiter=api", "WRONGPASS", "the password"},
			[]string{"level=WARN", "requests are refused", "limiter=api", "rule=login", "WRONGPASS", "the password"})

		time.Sleep(time.Minute)
		store.answer = fails(core.ErrUnavailable)
		l.Allow(ctx, "k")
		expectLines(t, "a minute later", log.take(),
			[]string{"limiter=api", "has been failing", "stage=unavailable", "more=999", "since=1m0s"})

		store.answer = nil
		l.Allow(ctx, "k")
		expectLines(t, "the first answer", log.take())
		time.Sleep(time.Minute)
		l.Allow(ctx, "k")
		l.Allow(ctx, "k")
		expectLines(t, "after a minute without a failure", log.take(),
			[]string{"level=INFO", "answers again", "limiter=api", "outage=1m0s", "decided_by_policy=1001"})
		login.Allow(ctx, "k")
		expectLines(t, "the rule", log.take(),
			[]string{"answers again", "rule=login", "outage=0s", "decided_by_policy=1"})
	})
}

// TestLogOfFlapping: failures that follow each other within a minute are one outage.
func TestLogOfFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		store := &fake{}
		l := limiter(t, core.Config{Store: store, Observer: core.LogErrors(log.logger(), time.Hour)})
		for _, cause := range []string{"paused", "refused"} {
			for range 3 {
				store.answer = fails(errors.New(cause))
				l.Allow(ctx, "k")
				store.answer = nil
				for range 59 {
					l.Allow(ctx, "k")
					time.Sleep(time.Second)
				}
			}
			time.Sleep(time.Second)
			l.Allow(ctx, "k")
			expectLines(t, cause, log.take(),
				[]string{"level=WARN", "requests are served, uncounted", "error=" + cause},
				[]string{"level=INFO", "answers again", "outage=1m58s", "decided_by_policy=3"})
		}
	})
}

// TestLogKinds: each kind of problem has words of its own, and lines of its own.
func TestLogKinds(t *testing.T) {
	var log lines
	o := core.LogErrors(log.logger(), time.Hour)
	down := &fake{answer: fails(errDown)}
	open := limiter(t, core.Config{Name: "a", Store: down, Observer: o})
	both := open.WithPolicy(core.Fallback(&fake{answer: fails(errDown)}, 1))
	failing := func(name string, err error) *core.Limiter {
		return limiter(t, core.Config{Name: name, Store: &fake{answer: fails(err)}, Observer: o})
	}
	late, full := failing("late", core.ErrTimeout), failing("full", core.ErrStoreFull)
	known := failing("known", fmt.Errorf("asking: %w", errs.WithHint("raise\nmaxmemory", errors.New("OOM"))))
	for range 2 {
		open.Allow(ended, "k")
		open.Allow(ctx, "k")
		open.WithPolicy(core.Fallback(&fake{}, 1)).Allow(ctx, "k")
		both.Allow(ctx, "k")
		late.Allow(ctx, "k")
		full.Allow(ctx, "k")
		known.Allow(ctx, "k")
		late.Allow(ctx, "")
		open.AllowN(ctx, "k", -1)
		noKey := core.Request{Label: "GET /items"}
		open.Report(ctx, noKey, core.Decision{Err: errDown})
		open.Report(ctx, noKey, core.Decision{Err: fmt.Errorf("%w: %w", core.ErrKey, core.ErrStore)})
		plan := core.Request{Label: "GET /items", Key: "k", Shadow: true}
		open.Report(ctx, plan, core.Decision{Err: fmt.Errorf("%w: %w", core.ErrLimits, core.ErrInvalid)})
	}
	expectLines(t, "kinds", log.take(),
		[]string{"are served, uncounted", "error=", errDown.Error(), "the password"},
		[]string{"the fallback decides"},
		[]string{"both the store and its fallback", "the fallback failed", "stage=fallback"},
		[]string{"limiter=late", "no answer within the timeout", "TLS", "Config.Timeout"},
		[]string{"limiter=full", "the store is full", "more memory"},
		[]string{"limiter=known", `error="asking: OOM" hint=raise\nmaxmemory`},
		[]string{"limiter=late", "without a key", "the key is empty"},
		[]string{"malformed requests", "the cost is negative"},
		[]string{"limiter=a", "without a key", "behind the authentication", `route="GET /items"`},
		[]string{"the key function fails"},
		[]string{"limits of requests are unknown", "WithLimiter", "shadow=true"})
}

// TestLogIsBounded: whatever the names and texts are, lines are few and short.
func TestLogIsBounded(t *testing.T) {
	var log lines
	log.asDefault(t)
	synctest.Test(t, func(t *testing.T) {
		long := errors.New(strings.Repeat("a\nb\x1b[31m", 1000))
		limiter(t, core.Config{Store: &fake{answer: fails(long)}}).Allow(ctx, "k")
		got := log.take()
		if len(got) != 1 || len(got[0]) > 1200 || !strings.Contains(got[0], `error=a\nb\x1b[31m`) {
			t.Errorf("%d lines, the first of %d bytes: %s", len(got), len(got[0]), got[0])
		}

		all := core.LogErrors(log.logger(), time.Minute)
		for i := range 1000 {
			store := &fake{answer: fails(errDown)}
			limiter(t, core.Config{Name: fmt.Sprint(i), Store: store, Observer: all}).Allow(ctx, "k")
		}
		if got := log.take(); len(got) != 257 {
			t.Errorf("%d lines of 1000 limiters in one log, want 257", len(got))
		}
	})
}

// TestNotice: a notice of a program or of a store is told once for each limiter and code. Of a decision all observers
// hear, in order.
func TestNotice(t *testing.T) {
	var log lines
	var events string
	say := func(word string) core.Observer {
		return core.ObserverFunc(func(_ context.Context, e core.Event) { events += word + e.Key + " " })
	}
	var store fake
	l := limiter(t, core.Config{Name: "api", Store: &store, Observer: core.Observers(
		say("a"), core.Silent, core.LogErrors(log.logger(), time.Minute), say("b"), core.Observers())})
	login := core.Must(l.Rule("login", core.PerMinute(1)))
	for range 3 {
		l.Notice(ctx, "twice", "one request is counted twice: mount the limit once")
		login.Notice(ctx, "twice", "one request is counted twice: mount the limit once")
		store.bound[0].Notice("evicts", "the server evicts")
	}
	expectLines(t, "notices", log.take(),
		[]string{"one request is counted twice: mount", "code=twice", "limiter=api"},
		[]string{"code=twice", "rule=login"},
		[]string{"the server evicts", "code=evicts"})
	if l.Allow(ctx, "k"); events != "ak bk " {
		t.Errorf("the observers heard of %q, want the last decision alone", events)
	}
	var heard notices
	limiter(t, core.Config{Observer: &heard}).
		Notice(ctx, "proxy", "all came from fe80::1%eth0\nERROR forged \x1b[2J"+strings.Repeat("x", 5000))
	said := heard.expect(t, "a forged notice", "proxy")
	const want = `all came from fe80::1%eth0\nERROR forged \x1b[2Jxxx`
	if len(said) == 1 && (!strings.HasPrefix(said[0].Text, want) || len(said[0].Text) > 1010) {
		t.Errorf("a forged notice: %q", said[0].Text)
	}
}
