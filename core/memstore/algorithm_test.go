package memstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
	"github.com/sashlimit/sash/core/memstore"
)

// TestEveryAlgorithm takes each algorithm through all that the store does with a
// client. It holds the numbers and names of core's algorithms and of window's kinds
// together.
func TestEveryAlgorithm(t *testing.T) {
	all := core.Algorithms()
	if next := window.Kind(len(all)); next.Known() {
		t.Errorf("package window knows %v, package core does not", next)
	}
	for _, a := range all {
		t.Run(a.String(), func(t *testing.T) {
			if kind := window.Kind(a); kind.String() != a.String() {
				t.Fatalf("algorithm %d is %q in window, want %q", a, kind, a)
			}
			s, c := newStore(memstore.DefaultMaxBytes)
			l := limiter(t, s, core.PerHour(3).Using(a), core.PerDay(5).Using(a))
			take := func(what string, cost int64, allowed bool, remaining int64) core.Decision {
				t.Helper()
				peek := l.Decide(ctx, core.Request{Key: "k", Cost: cost, Peek: true})
				d := l.AllowN(ctx, "k", cost)
				if d != peek || d.Err != nil || d.Allowed != allowed || d.Remaining != remaining {
					t.Fatalf("%s: %+v after a peek said %+v, want allowed %v with %d remaining", what, d, peek,
						allowed, remaining)
				}
				return d
			}
			take("first", 1, true, 2)
			take("a cost of 2", 2, true, 0)
			take("at the limit", 1, false, 0)
			if err := l.Reset(ctx, "k"); err != nil {
				t.Fatal(err)
			}
			take("after a reset", 3, true, 0)
			s.EvictAll()
			told := take("evicted", 1, false, 0)
			c.Add(told.RetryAfter)
			take("when told to come", 1, true, l.Peek(ctx, "k").Remaining)
			if err := l.Reset(ctx, "k"); err != nil {
				t.Fatal(err)
			}
			take("a reset of an evicted client", 3, true, 0)
			c.Add(4 * 24 * time.Hour)
			take("days later", 3, true, 0)
		})
	}
}

// TestUnknownAlgorithm: a rule that no Limiter has checked is an error, and is not
// counted by another algorithm.
func TestUnknownAlgorithm(t *testing.T) {
	unknown := core.Algorithm(len(core.Algorithms()))
	limits := []core.Limit{core.PerMinute(1).Named("minute").Using(unknown)}
	counts, err := memstore.New().Bind(core.Rule{Limits: limits})
	if counts != nil || err == nil || !strings.Contains(err.Error(), `algorithm of limit 1/1m `) {
		t.Errorf("Bind returned %v and %v, want an error that names the limit", counts, err)
	}
}
