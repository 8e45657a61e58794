package core_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/notice"
)

// notices is an observer that collects notices. It is safe for concurrent use.
type notices struct {
	mu  sync.Mutex
	all []core.Notice
}

func (n *notices) Observe(context.Context, core.Event) {}
func (n *notices) Notice(_ context.Context, heard core.Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, heard)
}

// expect checks that notices with these codes, and no others, came since the last call.
func (n *notices) expect(t *testing.T, what string, codes ...string) []core.Notice {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	var got []string
	for _, heard := range n.all {
		got = append(got, heard.Code)
	}
	if !slices.Equal(got, codes) {
		t.Errorf("%s: the notices are %q, want %q", what, n.all, codes)
	}
	all := n.all
	n.all = nil
	return all
}

// TestLargeLog: a log of more than a megabyte for each client is told of.
func TestLargeLog(t *testing.T) {
	for _, c := range []struct {
		limit core.Limit
		codes []string
	}{
		{core.PerHour(111_111), nil},
		{core.PerHour(111_112), []string{notice.LargeLog}},
		{core.PerHour(1_000_000).Using(core.SlidingCounter), nil},
	} {
		var heard notices
		l := limiter(t, core.Config{Name: "api", Limits: []core.Limit{core.PerSecond(10), c.limit}, Observer: &heard})
		l.WithPolicy(core.FailClosed)
		said := heard.expect(t, c.limit.String(), c.codes...)
		if len(said) == 1 && !strings.Contains(said[0].Text, "1.0 MB") {
			t.Errorf("said %q", said[0].Text)
		}
	}
}

// askingObserver asks the limiter for another at a notice.
type askingObserver struct {
	notices
	limiter *core.Limiter
}

func (o *askingObserver) Notice(context.Context, core.Notice) {
	if o.limiter != nil {
		core.Must(o.limiter.Rule("other", core.PerSecond(1)))
	}
}

// TestNoticeMayAsk: an observer may call the limiter whose notice it gets.
func TestNoticeMayAsk(t *testing.T) {
	o := &askingObserver{}
	o.limiter = limiter(t, core.Config{Limits: []core.Limit{core.PerSecond(10)}, Observer: o})
	core.Must(o.limiter.Rule("large", core.PerHour(1_000_000)))
}

// TestQuiet: each code can be turned off, for a limiter and its rules, and core.Silent
// turns all off.
func TestQuiet(t *testing.T) {
	var log lines
	log.asDefault(t)
	for _, c := range []core.Config{{}, {Quiet: []string{notice.LargeLog}}, {Observer: core.Silent}} {
		c.Limits = []core.Limit{core.PerMinute(200_000)}
		l := limiter(t, c)
		rule := core.Must(l.Rule("login", c.Limits...))
		for _, l := range []*core.Limiter{l, rule} {
			l.Allow(ctx, "k")
			l.Notice(ctx, notice.EvictionPolicy, "it evicts")
		}
		got := strings.Join(log.take(), "\n")
		for code, want := range map[string]bool{
			notice.LargeLog: c.Quiet == nil && c.Observer == nil, notice.EvictionPolicy: c.Observer == nil,
		} {
			if said := strings.Count(got, "code="+code); said != 2 && want || said != 0 && !want {
				t.Errorf("%+v: %d lines about %s:\n%s", c, said, code, got)
			}
		}
	}
}
