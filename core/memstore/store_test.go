package memstore_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) core.Store { return memstore.New() })
}

// TestConformanceSmall runs the suite in the least memory, where shards and
// chunks come and go.
func TestConformanceSmall(t *testing.T) {
	storetest.Run(t, func(*testing.T) core.Store { return memstore.New(memstore.WithMaxBytes(memstore.MinMaxBytes)) })
}

// TestStoreNotMadeByNew: a Store that New did not make is an error of core.New
// that says so.
func TestStoreNotMadeByNew(t *testing.T) {
	for name, s := range map[string]*memstore.Store{"nil": nil, "the zero value": {}, "new(Store)": new(memstore.Store)} {
		if n := s.Bytes(); n != 0 {
			t.Errorf("%s: Bytes() = %d, want 0", name, n)
		}
		_, err := core.New(core.Config{Store: s, Limits: []core.Limit{core.PerMinute(1)}})
		if err == nil || !strings.Contains(err.Error(), "memstore.New") {
			t.Errorf("%s: core.New returned %v, want an error that names memstore.New", name, err)
		}
	}
}

// TestNilOption: an option that is nil is an error of core.New.
func TestNilOption(t *testing.T) {
	s := memstore.New(memstore.WithMaxBytes(memstore.MinMaxBytes), nil)
	_, err := core.New(core.Config{Store: s, Limits: []core.Limit{core.PerMinute(1)}})
	if err == nil || !strings.Contains(err.Error(), "option 2 of memstore is nil") {
		t.Errorf("core.New returned %v, want an error that names the option", err)
	}
}

// TestResetInEndedContext: a Reset whose caller has left says so and resets
// nothing. The limiter's own timeout does not stop it: another store may have used
// that up.
func TestResetInEndedContext(t *testing.T) {
	rule := core.Rule{Name: "api", Limits: []core.Limit{core.PerDay(1).Named("day")}}
	counts, err := memstore.New().Bind(rule)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := counts.Take(ctx, core.Ask{Key: "k", Cost: 1}); err != nil || !d.Allowed {
		t.Fatalf("first request: %+v, %v; want admitted", d, err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	late, cancel := context.WithTimeoutCause(ctx, 0, core.ErrTimeout)
	defer cancel()
	if err := counts.Reset(ended, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("Reset in an ended context returned %v, want %v", err, context.Canceled)
	}
	if d, err := counts.Take(ctx, core.Ask{Key: "k", Cost: 1}); err != nil || d.Allowed {
		t.Errorf("second request after that Reset: %+v, %v; want refused", d, err)
	}
	if err := counts.Reset(late, "k"); err != nil {
		t.Errorf("Reset when the limiter's timeout is over: %v, want nil", err)
	}
	if d, err := counts.Take(ctx, core.Ask{Key: "k", Cost: 1}); err != nil || !d.Allowed {
		t.Errorf("request after the late Reset: %+v, %v; want admitted", d, err)
	}
}

// TestConformanceInAFullStore runs the suite in stores of several sizes whose
// slots are all taken, by clients that have used little of their limits.
func TestConformanceInAFullStore(t *testing.T) {
	for _, size := range []int{memstore.MinMaxBytes, small, 1 << 20} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T) core.Store {
				s := memstore.New(memstore.WithMaxBytes(int64(size)))
				crowd := limiter(t, s, core.Per(1_000_000, 25*time.Hour).Using(core.SlidingCounter))
				for range 2 {
					for i := range 2 * fits(size) {
						crowd.Allow(ctx, key("crowd ", i))
					}
				}
				return s
			})
		})
	}
}

// TestHonest compares what the store says with what the heap says.
func TestHonest(t *testing.T) {
	for _, c := range []struct {
		name     string
		limit    core.Limit
		requests int
	}{
		{"counters", core.PerDay(100).Using(core.SlidingCounter), 1},
		{"logs of one", core.PerDay(100), 1},
		{"logs of ten", core.PerDay(100), 10},
		{"logs of three hundred", core.PerDay(1000), 300},
	} {
		before := heap()
		s := memstore.New()
		l := limiter(t, s, c.limit)
		for k := range 40_000 / c.requests {
			for range c.requests {
				if d := l.Allow(ctx, key("k", k)); !d.Allowed {
					t.Fatal(d)
				}
			}
		}
		grown := heap() - before
		if slack := s.Bytes()/50 + 64<<10; grown > s.Bytes()+slack {
			t.Errorf("%s: the heap grew by %d, Bytes says %d", c.name, grown, s.Bytes())
		} else if grown < s.Bytes()*3/4 {
			t.Errorf("%s: the heap grew by %d only, Bytes says %d", c.name, grown, s.Bytes())
		}
		runtime.KeepAlive(s)
	}
}
